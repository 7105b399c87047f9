"""Every candidate compiled for every architecture through `inspection`, and judged by its machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from ..cases.case import Case, DType, Pass
from ..errors import UsageError
from ..inspection.budget import broken_budgets
from ..inspection.capture import Launch, captured
from ..inspection.compilation import Compiled, Job, compile_jobs, variant_of
from ..inspection.devices import capability_of
from ..inspection.scope import ROWS
from .candidates import Candidate, candidates_for
from .devices import device_of
from .model import Estimate, estimate
from .operands import KERNELS, Operands, make_call

__all__ = ["Question", "Trial", "compile_trials", "questions_of"]

Observer = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Ask for the best launch of one direction, width and dtype, for all norms in `cases` at once: a launch knows no norm."""

    direction: Pass
    dtype: DType
    cols: int
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Hold what the code of one candidate tells for one case on one architecture; `estimate` is None where it does not compile."""

    question: Question
    case: Case
    candidate: Candidate
    arch: str
    estimate: Estimate | None
    error: str | None = None


def questions_of(cases: Iterable[Case]) -> tuple[Question, ...]:
    """Return one question for each direction, dtype and width; refuse a case of both directions."""
    together: dict[tuple[Pass, DType, int], list[Case]] = {}
    for case in cases:
        if case.pass_ is Pass.FORWARD_BACKWARD:
            raise UsageError(f"pass {case.pass_.value!r} has two kernels, which are tuned apart: ask for forward or backward")
        together.setdefault((case.pass_, case.dtype, case.cols), []).append(case)
    return tuple(
        Question(direction=direction, dtype=dtype, cols=cols, cases=tuple(alike)) for (direction, dtype, cols), alike in together.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Hold a candidate of a question with the launch that it makes for a case."""

    question: Question
    case: Case
    candidate: Candidate
    launch: Launch


def compile_trials(questions: Sequence[Question], architectures: Sequence[str], *, workers: int, observe: Observer) -> tuple[Trial, ...]:
    """Return a trial for every candidate of every question on every architecture, in order.

    What shares its machine code is compiled once, and what has been compiled before comes from Triton's cache on disk. Raises
    UsageError for an architecture without a device in the model.
    """
    devices = {arch: device_of(arch) for arch in architectures}
    seen = list(_seen(questions))
    jobs = {job.key: job for arch in devices for one in seen if (job := Job(launch=one.launch, capability=capability_of(arch)))}
    compiled: dict[tuple[str, int], Compiled] = {}
    observe(0, len(jobs), "compiling candidates")
    for part in compile_jobs(list(jobs.values()), workers=workers):
        compiled |= part
        observe(len(compiled), len(jobs), "compiling candidates")
    return tuple(_trial(one, arch, compiled[one.launch.key, capability_of(arch)]) for one in seen for arch in devices)


def _seen(questions: Sequence[Question]) -> Iterator[_Seen]:
    with captured() as launches:
        for question in questions:
            for case in question.cases:
                operands = Operands.unfilled(_launched(case))
                for candidate in candidates_for(question.direction, question.cols, question.dtype.itemsize):
                    launches.clear()
                    make_call(operands, candidate)()
                    (launch,) = (one for one in launches if one.kernel in KERNELS)
                    yield _Seen(question=question, case=case, candidate=candidate, launch=launch)


def _launched(case: Case) -> Case:
    """Return the case that a launch is made for: sizes enter the code only by what they divide by, and more rows would take memory."""
    return msgspec.structs.replace(case, shape=(ROWS, case.cols))


def _trial(one: _Seen, arch: str, compiled: Compiled) -> Trial:
    variant = variant_of(_launched(one.case), one.launch, compiled, provider="triton", arch=arch)
    found = None
    if variant.figures is not None:
        broken = [breach.message for breach in broken_budgets(variant)]
        found = estimate(one.candidate, one.case, variant.figures, device_of(arch), broken)
    return Trial(question=one.question, case=one.case, candidate=one.candidate, arch=arch, estimate=found, error=compiled.error)
