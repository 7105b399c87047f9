"""`normbench gate validate`: how often does the gate cry wolf here, and what does it find?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from .gate import conditions_of, place_of
from .options import Device, Dtype, ErrorRate, Margin, Norm, Pass, Seed, Threads
from .paths import require_file_place, write_file
from .show import EXIT_INTERRUPTED, AsJson, show_table

if TYPE_CHECKING:
    from ..gate.conduct import Observer, Question
    from ..gate.outcome import Outcome
    from ..gate.stored_validation import Subject, Trial, Validation
    from ..gate.trial_report import Findings
    from ..gate.trials import Trials

__all__ = ["validate"]

_DEFAULT_CASES = ",".join(
    (
        "op/layer_norm/forward/2x1024/float32@eager",
        "op/rms_norm/forward/16x1024/float32@aten",
        "op/layer_norm/forward/64x1024/float32@compile",
        "op/rms_norm/forward/256x1024/float32@eager",
        "op/layer_norm/forward/1024x1024/float32@aten",
        "op/rms_norm/forward/2048x1024/float32@compile",
    )
)
"""Both norms by three providers, x and y together from 16 KiB to 16 MiB."""


def validate(
    runs: Annotated[int, typer.Option(help="Whole gate runs for each slow-down.")] = 10,
    inject: Annotated[str, typer.Option(help="Slow-downs in percent, each put into one case of its runs; 0: the same code.")] = "0,5",
    cases: Annotated[str, typer.Option(help="Cases as case-id@provider, or case ids, a grid or shapes by --provider.")] = _DEFAULT_CASES,
    provider: Annotated[str, typer.Option(help="Providers of cases that name none.")] = "eager,aten,compile",
    norm: Norm = "layer_norm,rms_norm",
    pass_: Pass = "forward",
    dtype: Dtype = "float32",
    device: Device = "cpu",
    threads: Threads = 1,
    margin: Margin = "2%",
    error_rate: ErrorRate = "1%",
    budget: Annotated[str, typer.Option(help="Time for each whole run, such as 60s.")] = "60s",
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder that validations are kept in.")] = Path(".normbench/validations"),
    replay: Annotated[str, typer.Option(help="Run nothing: report on folders of earlier validations, merged; commas between them.")] = "",
    markdown: Annotated[Path | None, typer.Option(help="Also write the report as Markdown to this file, and a PNG beside it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the gate many times, on the same code and on code made slower by a known amount, and count what it says."""
    require_file_place("--markdown", markdown)
    from ..gate.stored_validation import merged, read_validation
    from ..gate.trials import Trials
    from ..gate.words import seconds, share
    from ..host.threads import validate_threads
    from ..text.choices import split

    if replay:
        _report(merged([read_validation(Path(folder)) for folder in split(replay)]), markdown, as_json)
        return
    validate_threads(threads)
    trials = Trials(
        subjects=_subjects(cases, split(provider), norms=split(norm), passes=split(pass_), dtypes=split(dtype)),
        slowdowns=tuple(share(f"{part.strip().removesuffix('%')}%", "inject") for part in split(inject)),
        runs=runs,
        policy=_policy(margin, error_rate),
        conditions=conditions_of(device, threads),
        budget_s=seconds(budget, "budget"),
        seed=seed,
    )
    path, interrupted = _run(trials, out)
    if path is not None:
        validation = read_validation(path)
        if validation.trials:
            _report(validation, markdown, as_json)
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _policy(margin: str, error_rate: str) -> Any:
    from ..gate.policy import Policy
    from ..gate.words import share

    return Policy(margin=share(margin, "margin"), error_rate=share(error_rate, "error-rate"))


def _subjects(text: str, providers: Sequence[str], **choice: Any) -> tuple[Subject, ...]:
    from ..gate.stored_validation import Subject
    from ..gate.words import cases_of
    from ..registry import Registry
    from ..text.choices import split
    from ..text.words import one_of

    if "@" in text:
        parts = [part.rpartition("@") for part in split(text)]
        if bare := [name for case, _, name in parts if not case]:
            raise UsageError(f"{bare[0]!r} names no provider: give all cases as case-id@provider, or none")
        subjects = [Subject(provider=name, case=case) for text, _, name in parts for case in cases_of(text, **choice)]
    else:
        subjects = [Subject(provider=name, case=case) for case in cases_of(text, **choice) for name in providers]
    known = sorted(Registry.names())
    for one in subjects:
        one_of(known, one.provider, "provider")
    return tuple(dict.fromkeys(subjects))


def _run(trials: Trials, out: Path) -> tuple[Path | None, bool]:
    """Run the trials and return their folder, None where nothing was begun, and whether Ctrl-C ended them."""
    from ..gate.conduct import Observer
    from ..gate.trials import validate as run_trials
    from ..host.machine import machine_record, package_versions
    from ..screen.bar import make_bar, make_screen

    screen = make_screen()
    total = trials.runs * len(trials.slowdowns)
    begun: list[Path] = []
    with make_bar(screen) as bar:
        task = bar.add_task("measuring what a call takes", total=total)

        @contextmanager
        def watched(question: Question) -> Iterator[Observer]:
            begun[:] = [question.log.parent.parent.parent]
            yield Observer(phase=lambda what, _: bar.update(task, description=what))

        def done(trial: Trial, outcome: Outcome) -> None:
            bar.update(task, advance=1)
            what = f"{100 * trial.run.slowdown:.2f} % slower {trial.run.slowed}" if trial.run.slowed else "same code"
            screen.print(f"{what}: {outcome.sentence}", soft_wrap=True)

        try:
            path = run_trials(
                trials,
                root=out,
                command=["normbench", *sys.argv[1:]],
                machine=machine_record(),
                versions=package_versions(),
                observer=done,
                watched=watched,
            )
        except KeyboardInterrupt:
            return (begun[0] if begun else None), True
    return path, False


def _report(validation: Validation, markdown: Path | None, as_json: bool) -> None:
    import msgspec

    from ..gate.stored_validation import peer_samples
    from ..gate.trial_figure import figure
    from ..gate.trial_report import analysed
    from ..gate.trial_report import markdown as as_markdown

    if not validation.trials:
        raise UsageError(f"{', '.join(map(str, validation.paths))}: no run was finished, there is nothing to report")
    about = validation.about
    found = analysed([one.run for one in validation.trials], [one.exit_code for one in validation.trials], peer_samples(validation), seed=0)
    place = place_of(about.machine, about.conditions)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        _show(found, validation)
    if markdown is not None:
        write_file(markdown, as_markdown(found, title="The gate, validated", place=place).encode())
        write_file(markdown.with_suffix(".png"), figure(found, place))


def _show(found: Findings, validation: Validation) -> None:
    from ..gate.trial_report import sentence, tables

    typer.echo(sentence(found))
    for columns, rows in tables(found):
        show_table(columns, rows)
    typer.echo(f"kept: {', '.join(map(str, validation.paths))}")
