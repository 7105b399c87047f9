"""One inspection: the cases a user asks for, what each provider launches for them, compiled once each, as a list of variants."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..cases.case import Case, Convention, Norm
from ..cases.grids import Grid, GridShape, expand
from ..errors import UsageError
from ..registry import Registry
from .capture import Launch, launches_of
from .compilation import Compiled, Job, compile_jobs, variant_of
from .devices import capability_of
from .figures import Inspection, Skipped
from .scope import ARCHITECTURES, COLS, DTYPES, NORMS, PASSES, ROWS

__all__ = ["Observer", "Survey", "cases_in_scope", "survey"]

Observer = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Say what to inspect: every case by every provider for every architecture, only kernels whose name fits the pattern."""

    providers: tuple[str, ...]
    cases: tuple[Case, ...]
    architectures: tuple[str, ...] = ARCHITECTURES
    kernels: str = "*"
    workers: int = 1


def cases_in_scope(
    *,
    norms: Sequence[str] = NORMS,
    passes: Sequence[str] = PASSES,
    dtypes: Sequence[str] = DTYPES,
    conventions: Sequence[str] = (Convention.TORCH,),
    cols: Sequence[int] = COLS,
    rows: int = ROWS,
) -> tuple[Case, ...]:
    """Return a case for each width, dtype, pass and norm, and for each convention that the norm has: of the latter torch alone by default.

    Raises UsageError for a word or a size that is none.
    """
    for size in (rows, *cols):
        if size < 1:
            raise UsageError(f"size {size} is less than 1: rows and cols are at least 1")
    shapes = tuple(GridShape((rows, width), "inspected") for width in dict.fromkeys(cols))
    grid = Grid(name="inspected", summary="widths to inspect", shapes=shapes)
    cases: list[Case] = []
    for convention in conventions:
        defined = norms if convention == Convention.TORCH else [norm for norm in norms if norm.endswith(Norm.RMS_NORM)]
        cases += expand(grid, norms=defined, passes=passes, dtypes=dtypes, convention=convention)
    return tuple(dict.fromkeys(cases))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Hold one kernel that a provider launches for a case; `ordinal` counts the variants of one kernel in it."""

    provider: str
    case: Case
    ordinal: int
    launch: Launch


def survey(question: Survey, observe: Observer) -> Inspection:
    """Compile all that is asked for and return its figures; `observe(done, total, what)` hears how far it is.

    Raises UsageError for an unknown provider or architecture, a provider without Triton kernels, and a choice that leaves nothing.
    """
    capabilities = [capability_of(arch) for arch in question.architectures]
    found, skipped = _capture(question, observe)
    jobs = list(
        {job.key: job for capability in capabilities for one in found if (job := Job(launch=one.launch, capability=capability))}.values()
    )
    compiled: dict[tuple[str, int], Compiled] = {}
    observe(0, len(jobs), "compiling kernels")
    for part in compile_jobs(jobs, workers=question.workers):
        compiled |= part
        observe(len(compiled), len(jobs), "compiling kernels")
    variants = [
        variant_of(one.case, one.launch, compiled[one.launch.key, capability], provider=one.provider, arch=arch, ordinal=one.ordinal)
        for one in found
        for arch, capability in zip(question.architectures, capabilities, strict=True)
    ]
    return Inspection(versions=_versions(), variants=tuple(variants), skipped=tuple(skipped))


def _capture(question: Survey, observe: Observer) -> tuple[list[_Found], list[Skipped]]:
    registry = Registry()
    found: list[_Found] = []
    skipped: list[Skipped] = []
    names: set[str] = set()
    total = len(question.providers) * len(question.cases)
    for first, name in enumerate(question.providers):
        provider = registry.resolve(name)
        for index, case in enumerate(question.cases, first * len(question.cases)):
            observe(index, total, "running providers")
            if reason := provider.unsupported(case, "cuda"):
                skipped.append(Skipped(provider=name, case=case.id, reason=reason))
                continue
            ordinals: Counter[str] = Counter()
            for launch in launches_of(provider, case):
                names.add(launch.kernel)
                if fnmatchcase(launch.kernel, question.kernels):
                    found.append(_Found(provider=name, case=case, ordinal=ordinals[launch.kernel], launch=launch))
                    ordinals[launch.kernel] += 1
    if not found and names:
        raise UsageError(f"no kernel is named {question.kernels!r}; launched are {', '.join(sorted(names))}")
    if not found:
        reasons = "; ".join(dict.fromkeys(one.reason for one in skipped)) or "no case was asked for"
        raise UsageError(f"nothing to inspect: {reasons}")
    return found, skipped


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("torch", "triton")}
