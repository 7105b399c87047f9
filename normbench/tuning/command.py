"""The autotuner's command line: what to try, tables on standard output, progress on standard error."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import msgspec
import typer

from ..errors import NormbenchError, UsageError
from ..host.threads import available_cores
from ..inspection.scope import COLS
from ..inspection.survey import Observer, cases_in_scope
from .candidates import Candidate, chosen_today
from .compilation import Question, Trial, compile_trials, questions_of
from .devices import DEVICES
from .ranking import Judged, stand, survivors
from .tables import COLUMNS, Finding, markdown_of, row_of
from .timing import device_arch, time_candidates

__all__ = ["main", "tune"]

EVERYWHERE = "all"
MAX_ELEMENTS = 2**28
"""Elements of x at most: half a GiB in 16 bits, far more than any cache holds and so little that eight tensors fit any device."""


def main() -> None:
    """Run the command."""
    typer.run(tune)


def tune(
    cols: Annotated[str, typer.Option(help="Widths.")] = ",".join(map(str, COLS)),
    dtype: Annotated[str, typer.Option(help="float32, bfloat16, float16.")] = "bfloat16,float32",
    norm: Annotated[str, typer.Option(help="Norms that one launch has to serve.")] = "add_layer_norm,rms_norm",
    pass_: Annotated[str, typer.Option("--pass", help="forward, backward.")] = "forward,backward",
    arch: Annotated[str, typer.Option(help="Architectures to compile for; no GPU is needed.")] = ",".join(DEVICES),
    rows: Annotated[int, typer.Option(help="Rows of x, at most 2**28 elements.")] = 32_768,
    workers: Annotated[int, typer.Option(help="Processes that compile; 0 for as many as there are cores.")] = 0,
    timed: Annotated[int, typer.Option(help="Candidates timed beside today's where there is a CUDA device.")] = 6,
    seed: Annotated[int, typer.Option(help="Seed of inputs and of the order of turns.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="File to write every candidate's figures to.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="File to write the table to.")] = None,
) -> None:
    """Try launches around those that the kernels have, rank them by machine code, and by time where there is a GPU."""
    from ..screen.bar import counting

    try:
        questions = questions_of(_cases(cols, dtype, norm, pass_, rows))
        architectures = tuple(dict.fromkeys(_words(arch)))
        with counting() as observe:
            trials = compile_trials(questions, architectures, workers=workers or available_cores(), observe=observe)
            times = _times(questions, trials, timed, seed, observe)
    except NormbenchError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    findings = [found for question in questions for found in _findings(question, trials, times)]
    _show(findings)
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode([_as_json(one) for one in trials]), indent=1))
    if markdown_file is not None:
        markdown_file.write_text(markdown_of(findings, {name: importlib.metadata.version(name) for name in ("torch", "triton")}))


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _cases(cols: str, dtype: str, norm: str, pass_: str, rows: int) -> list[Any]:
    for width in _words(cols):
        if not width.isdecimal() or int(width) < 1:
            raise UsageError(f"cols {width!r} is no width: give whole numbers such as 4096,8192")
    found = [
        case
        for width in map(int, _words(cols))
        for case in cases_in_scope(
            norms=_words(norm), passes=_words(pass_), dtypes=_words(dtype), cols=[width], rows=max(1, min(rows, MAX_ELEMENTS // width))
        )
    ]
    if not found:
        raise UsageError("there is nothing to tune: name at least one width, dtype, norm and pass")
    return found


def _times(
    questions: Sequence[Question], trials: Sequence[Trial], count: int, seed: int, observe: Observer
) -> dict[tuple[Question, str], dict[Candidate, float]]:
    """Return the time over today's of the best candidates by the model, over all norms, on the device that is here."""
    here = device_arch()
    if here is None or count < 1 or not any(one.arch == here for one in trials):
        return {}
    found = {}
    for done, question in enumerate(questions):
        observe(done, len(questions), "timing candidates")
        today = chosen_today(question.direction, question.cols, question.dtype.itemsize)
        tried = survivors(_judged(question, trials, [here], {}), today, count)
        ratios = [time_candidates(case, tried, seed=seed) for case in question.cases]
        found[question, here] = {candidate: geometric_mean([one[candidate].estimate for one in ratios]) for candidate in tried}
    return found


def _judged(
    question: Question, trials: Sequence[Trial], architectures: Sequence[str], times: Mapping[Candidate, float]
) -> dict[Candidate, Judged]:
    """Return every candidate that compiles for all the architectures, judged over them and all norms."""
    mine = [one for one in trials if one.question == question and one.arch in architectures]
    failed = {one.candidate for one in mine if one.estimate is None}
    return {
        candidate: Judged(
            candidate=candidate,
            estimates=tuple(one.estimate for one in mine if one.candidate == candidate and one.estimate is not None),
            time_ratio=times.get(candidate),
        )
        for candidate in dict.fromkeys(one.candidate for one in mine)
        if candidate not in failed
    }


def _findings(
    question: Question, trials: Sequence[Trial], times: Mapping[tuple[Question, str], Mapping[Candidate, float]]
) -> Iterator[Finding]:
    """Yield where today's launch stands on each architecture, and on all at once: `launch` knows none."""
    today = chosen_today(question.direction, question.cols, question.dtype.itemsize)
    architectures = list(dict.fromkeys(one.arch for one in trials))
    asked = {arch: [arch] for arch in architectures} | ({EVERYWHERE: architectures} if len(architectures) > 1 else {})
    for name, included in asked.items():
        judged = _judged(question, trials, included, times.get((question, name), {}))
        if today not in judged:
            raise NormbenchError(f"today's launch of {question.direction.value} at {question.cols} columns does not compile for {name}")
        yield Finding(direction=question.direction, dtype=question.dtype, cols=question.cols, arch=name, standing=stand(judged, today))


def _show(findings: Sequence[Finding]) -> None:
    """Print a table for each width; what goes to no terminal has a line for each row."""
    from rich.markup import escape
    from rich.table import Table

    from ..screen.terminal import console

    for cols in dict.fromkeys(found.cols for found in findings):
        table = Table(*COLUMNS, box=None, pad_edge=False, title=f"{cols} columns", title_justify="left")
        for found in findings:
            if found.cols == cols:
                table.add_row(*map(escape, row_of(found)), style="bold" if found.standing.is_clear else None)
        console(400).print(table)


def _as_json(trial: Trial) -> dict[str, Any]:
    found: dict[str, Any] = {
        "case": trial.case.id,
        "arch": trial.arch,
        "launch": msgspec.to_builtins(trial.candidate),
        "error": trial.error,
        "estimate": None,
    }
    if trial.estimate is not None:
        found["estimate"] = msgspec.to_builtins(trial.estimate) | {
            "bound": trial.estimate.bound.value,
            "slowdown": trial.estimate.slowdown,
        }
    return found
