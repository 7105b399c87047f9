"""`normbench profile`: where the time of a network's step goes, and what share of it its norms take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..text.choices import HELP
from .options import Device
from .paths import require_file_place, write_file
from .show import AsJson, print_json

if TYPE_CHECKING:
    from ..profile.subject import Subject
    from ..profile.summary import Profile

__all__ = ["profile"]

WIDTH = 160
"""Characters of a line that goes to no terminal: a row of the widest table."""


def profile(
    case: Annotated[
        str,
        typer.Argument(
            help="A network (gpt2, gpt2-full), a model case id, or path.py:NAME, a function that returns a module and its inputs.",
        ),
    ],
    provider: Annotated[str | None, typer.Option(help="Who computes the norms; the network's own code when not given.")] = None,
    norm: Annotated[str | None, typer.Option(help="Make all norms layer_norm or rms_norm.")] = None,
    pass_: Annotated[str | None, typer.Option("--pass", help="forward, forward_backward (a training step); both when not given.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 when not given; bfloat16, float16.")] = None,
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(help=HELP["threads"])] = None,
    steps: Annotated[int, typer.Option(help="Steps with the profiler, and as many without it.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of weights and inputs.")] = 0,
    trace: Annotated[Path | None, typer.Option(help="File for a Chrome trace of one step; Perfetto opens it.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a PNG of shares by kind of module and by operator.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show where the time of a network's step goes: by kind of module, by module, by operator, and the share of its norms."""
    _require_steps(steps)
    require_file_place("--trace", trace)
    require_file_place("--plot", plot)
    from ..host.threads import available_cores, set_threads
    from ..measure.device import describe_device
    from ..profile.capture import profile_step
    from ..profile.subject import Wish, make_subjects
    from ..text.choices import split

    describe_device(device, lambda found: None)
    threads = available_cores() if threads is None else threads
    wish = Wish(
        case=case, norm=norm, provider=provider, passes=tuple(split(pass_)) if pass_ else None, dtype=dtype, device=device, seed=seed
    )
    with set_threads(threads):
        subjects = make_subjects(wish)
        found: list[tuple[Subject, Profile, dict[str, Path]]] = []
        for subject in subjects:
            files = {kind: _file_of(path, subject, subjects) for kind, path in (("trace", trace), ("plot", plot)) if path is not None}
            found.append((subject, profile_step(subject.model, subject.step, steps=steps, trace=files.get("trace")), files))
    if as_json:
        print_json({"profiles": [_plain(*one, threads) for one in found]})
    else:
        _print(found, threads)
    for subject, one, files in found:
        _write_plot(files.get("plot"), subject, one, threads)


def _require_steps(steps: int) -> None:
    if steps < 1:
        raise UsageError(f"steps {steps} is less than 1: a profile needs a step")


def _file_of(path: Path, subject: Subject, subjects: list[Subject]) -> Path:
    """Return the file of one pass: that which was asked for, with the pass in its name where there are several."""
    return path if len(subjects) == 1 else path.with_name(f"{path.stem}-{subject.pass_.value}{path.suffix}")


def _title(subject: Subject, threads: int) -> str:
    from ..quantities.units import count

    where = f"{subject.device}, {count(threads, 'thread')}" if subject.device == "cpu" else subject.device
    return f"{subject.label}, {subject.pass_.value}, {subject.size}, {subject.dtype}, {subject.norms}; {where}"


def _write_plot(path: Path | None, subject: Subject, found: Profile, threads: int) -> None:
    if path is None:
        return
    from ..profile.figures import share_picture

    write_file(path, share_picture(found, _title(subject, threads)))


def _plain(subject: Subject, found: Profile, files: dict[str, Path], threads: int) -> dict[str, Any]:
    from ..profile.words import plain_profile

    circumstances = {
        "subject": subject.label,
        "pass": subject.pass_.value,
        "size": subject.size,
        "dtype": subject.dtype,
        "norms_by": subject.norms,
        "device": subject.device,
        "threads": threads,
        "left": list(subject.left),
        "files": {kind: str(path) for kind, path in files.items()},
    }
    return circumstances | plain_profile(found)


def _print(found: list[tuple[Subject, Profile, dict[str, Path]]], threads: int) -> None:
    from ..profile.tables import profile_tables
    from ..screen.terminal import console

    for subject, one, files in found:
        console(WIDTH).print(profile_tables(one, _title(subject, threads)))
        for reason in subject.left:
            typer.echo(f"left as it is: {reason}")
        for kind, path in files.items():
            typer.echo(f"{kind}: {path}")
