"""From results to tables: one scope each, shapes down, providers across. Pure; all cells are finished text.

A cell is never empty: it holds figures, or the status word of what was not measured, or a dash where nothing was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ..cases.case import DType, Norm, Pass, Tier
from ..cases.conditions import Cache, Conditions, Pages
from ..cases.shape import shape_text
from ..catalogue import BUILT_IN
from ..quantities.stats import Interval, ratio_or_none
from ..quantities.units import DASH, TIME_UNITS, bytes_text, count, interval_text, number, percent, ratio_text, time_text, time_unit
from ..records.record import COPY, Record, Role
from ..results.derived import BASELINE, Result, is_another_function
from ..text.markdown import escape

__all__ = [
    "NO_DIFFERENCE",
    "Scope",
    "ScopeResults",
    "Table",
    "accuracy_table",
    "allocation_table",
    "bandwidth_table",
    "by_scope",
    "describe_conditions",
    "fastest",
    "memory_table",
    "on_machine",
    "time_table",
    "told_ratio",
]

NO_DIFFERENCE = "≈"


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Name what all results of a table share. Results of different scopes are never put side by side."""

    tier: Tier
    norm: str
    pass_: Pass
    dtype: DType
    options: str
    conditions: Conditions
    machine: str = ""

    @classmethod
    def of(cls, record: Record) -> Scope:
        case = record.case
        options = ", ".join(case.id.split("/")[5:])
        return cls(
            tier=case.tier,
            norm=case.norm_label,
            pass_=case.pass_,
            dtype=case.dtype,
            options=options,
            conditions=record.conditions,
            machine=record.machine,
        )

    @property
    def title(self) -> str:
        """Return e.g. `rms_norm forward, float32`, with options that differ from the defaults appended."""
        return f"{self.norm} {self.pass_.value}, {self.dtype.value}" + (f" ({self.options})" if self.options else "")

    @property
    def circumstances(self) -> str:
        """Return tier, conditions and, of several, the machine, e.g. `op tier; cpu, 2 threads, warm cache, reused pages`."""
        return f"{self.tier.value} tier; {describe_conditions(self.conditions)}{on_machine(self.machine)}"

    @property
    def order(self) -> tuple[object, ...]:
        norms = [f"{prefix}{norm.value}" for prefix in ("", "add_") for norm in Norm]
        return (
            self.machine,
            list(Tier).index(self.tier),
            self.conditions.device,
            self.conditions.threads,
            list(Cache).index(self.conditions.cache),
            list(Pages).index(self.conditions.pages),
            list(DType).index(self.dtype),
            self.options,
            list(Pass).index(self.pass_),
            norms.index(self.norm),
        )


class ScopeResults(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the results of one scope as a grid: by shape and provider, controls apart."""

    scope: Scope
    shapes: tuple[tuple[int, ...], ...]
    providers: tuple[str, ...]
    cells: dict[tuple[tuple[int, ...], str], Result]
    controls: dict[tuple[tuple[int, ...], str], Result]

    def row(self, shape: tuple[int, ...]) -> list[Result]:
        """Return the providers' results at a shape, in the order of the columns."""
        return [self.cells[shape, name] for name in self.providers if (shape, name) in self.cells]


class Table(msgspec.Struct, frozen=True):
    """Hold a table of finished text: the header, and rows of as many cells."""

    header: list[str]
    rows: list[list[str]]


def describe_conditions(conditions: Conditions) -> str:
    threads = count(conditions.threads, "thread")
    if conditions.parallel is not None:
        threads = f"{conditions.processes} processes ({conditions.parallel.value}) of {threads}"
    return f"{conditions.device}, {threads}, {conditions.cache.value} cache, {conditions.pages.value} pages"


def on_machine(name: str) -> str:
    """Return which of a run's machines something was taken on, as the end of a list of circumstances; nothing for the run's own."""
    return f"; machine {name}" if name else ""


def by_scope(results: Iterable[Result]) -> list[ScopeResults]:
    """Return the op tier's results grouped by scope, in a fixed order; shapes by size, built-in providers first."""
    grouped: dict[Scope, list[Result]] = {}
    for result in results:
        if result.record.case.tier is not Tier.OP:
            continue
        grouped.setdefault(Scope.of(result.record), []).append(result)
    return [_grid(scope, grouped[scope]) for scope in sorted(grouped, key=lambda scope: scope.order)]


def _grid(scope: Scope, results: list[Result]) -> ScopeResults:
    def keyed(role: Role) -> dict[tuple[tuple[int, ...], str], Result]:
        return {(one.op_case.shape, one.record.provider): one for one in results if one.record.role is role}

    names = dict.fromkeys(one.record.provider for one in results if one.record.role is Role.PROVIDER)
    shapes = {one.op_case.shape: (one.op_case.numel, one.op_case.cols, one.op_case.shape) for one in results}
    known = list(BUILT_IN)
    return ScopeResults(
        scope=scope,
        shapes=tuple(sorted(shapes, key=lambda shape: shapes[shape])),
        providers=tuple(sorted(names, key=lambda name: known.index(name) if name in known else len(known))),
        cells=keyed(Role.PROVIDER),
        controls=keyed(Role.CONTROL),
    )


def fastest(row: Iterable[Result]) -> list[str]:
    """Return the provider with the least time in a row, and those that cannot be told from it; none unless two took turns."""
    timed = [one for one in row if one.time and not is_another_function(one.record)]
    if len(timed) < 2 or len({one.record.group for one in timed}) > 1:
        return []
    best = min(timed, key=lambda one: one.time.estimate if one.time else float("inf"))
    return [best.record.provider, *(one.record.provider for one in timed if one is not best and _tied(one, best))]


def _tied(one: Result, best: Result) -> bool:
    ratio = ratio_or_none(one.record.samples, best.record.samples)
    # Without an interval no difference is told: a single measurement makes no winner.
    return ratio is None or not ratio.excludes(1.0)


def _table(grid: ScopeResults, cell: Callable[[Result], str], extra: dict[str, Callable[[tuple[int, ...]], str]] | None = None) -> Table:
    """Lay out shapes x providers; `extra` columns are computed from the shape."""
    extra = extra or {}
    rows = []
    for shape in grid.shapes:
        cells = [cell(grid.cells[shape, name]) if (shape, name) in grid.cells else DASH for name in grid.providers]
        rows.append([shape_text(shape), *cells, *(column(shape) for column in extra.values())])
    return Table(["shape", *(_label(grid, name) for name in grid.providers), *extra], rows)


def _label(grid: ScopeResults, name: str) -> str:
    """Return the provider's name, and that its column holds something else than the table's norm where it does."""
    records = [one.record for (_, provider), one in grid.cells.items() if provider == name]
    return escape(name) + (" (another formula)" if any(map(is_another_function, records)) else "")


def _word(result: Result) -> str:
    """Return the one word that stands for a result without a time."""
    return "no time" if result.problem else result.record.status.value


def time_table(grid: ScopeResults) -> tuple[str, Table]:
    """Return the unit and the table of times, each above its speed-up against the baseline; the fastest of a row is bold."""
    unit = time_unit(one.time.estimate for one in grid.cells.values() if one.time)
    bold = {(shape, name) for shape in grid.shapes for name in fastest(grid.row(shape))}

    def cell(result: Result) -> str:
        if result.time is None:
            return _word(result)
        text = time_text(result.time.estimate, unit)
        if (result.op_case.shape, result.record.provider) in bold:
            text = f"**{text}**"
        marks = ", empty" if result.record.case.is_empty else ""
        marks += f", {result.record.status.value}" if result.record.status.value != "ok" else ""
        return f"{text} {interval_text(result.time, TIME_UNITS[unit])}{marks}<br>{_speedup(result)}"

    return unit, _table(grid, cell)


def _speedup(result: Result) -> str:
    if result.record.provider == BASELINE:
        return "baseline"
    if result.speedup is None:
        return result.speedup_missing or DASH
    return told_ratio(result.speedup)


def told_ratio(ratio: Interval) -> str:
    """Return a ratio with its interval, marked where that contains 1: no difference can be told."""
    return ratio_text(ratio) + (f" {NO_DIFFERENCE}" if ratio.contains(1.0) else "")


def bandwidth_table(grid: ScopeResults, peak_gbps: float | None) -> Table | None:
    """Return GB/s and percent of the copy's bandwidth; None when nothing has a bandwidth.

    With a cold cache more than the device's peak is an error; with a warm one the data may never leave it, and no memory's peak applies.
    """
    if not any(one.gbps for one in grid.cells.values()):
        return None

    limit = peak_gbps if grid.scope.conditions.cache is Cache.COLD else None

    def cell(result: Result) -> str:
        if result.gbps is None:
            return ("empty" if result.record.case.is_empty else DASH) if result.time else _word(result)
        if limit is not None and result.gbps > limit:
            return f"**error**: {number(result.gbps)} is above the peak of {number(limit)}"
        return number(result.gbps) + (f" ({percent(result.copy_share)})" if result.copy_share is not None else "")

    def copied(shape: tuple[int, ...]) -> str:
        copy = grid.controls.get((shape, COPY))
        return cell(copy) if copy else "not measured"

    def moved(shape: tuple[int, ...]) -> str:
        counts = [one.bytes_moved for one in grid.row(shape) if one.bytes_moved is not None]
        return bytes_text(counts[0]) if counts else DASH

    return _table(grid, cell, {"copy, GB/s": copied, "bytes moved": moved})


def accuracy_table(grid: ScopeResults) -> Table | None:
    """Return the worst error of each result as a fraction of its tolerance; None when nothing was judged."""
    if not any(one.worst for one in grid.cells.values()):
        return None

    def cell(result: Result) -> str:
        worst = result.worst
        if worst is None:
            return _word(result) if result.time is None else DASH
        if worst.fault:
            return f"wrong: {escape(worst.fault)} ({escape(worst.tensor)})"
        fraction = "not finite" if result.worst_fraction is None else number(result.worst_fraction, 2)
        ulps = f", {number(worst.ulps, 2)} ulp" if worst.ulps is not None else ""
        return ("" if worst.passed else "wrong: ") + f"{fraction} ({escape(worst.tensor)}{ulps})"

    return _table(grid, cell)


def memory_table(grid: ScopeResults) -> Table | None:
    """Return peak bytes above the inputs, and bytes saved for backward; None when no memory was measured."""
    if not any(one.record.memory and one.record.memory.peak_bytes is not None for one in grid.cells.values()):
        return None

    def cell(result: Result) -> str:
        memory = result.record.memory
        if memory is None or (memory.peak_bytes is None and memory.saved_bytes is None):
            return _word(result) if result.time is None else "not measured"
        both = (memory.peak_bytes, memory.saved_bytes)
        return " / ".join("not measured" if count is None else bytes_text(count) for count in both)

    return _table(grid, cell)


def allocation_table(grid: ScopeResults) -> Table | None:
    """Return the time to allocate the outputs as a share of each call; None when it was not measured."""
    if not any(one.allocation_share is not None for one in grid.cells.values()):
        return None

    def cell(result: Result) -> str:
        if result.time is None:
            return _word(result)
        return percent(result.allocation_share) if result.allocation_share is not None else "not measured"

    return _table(grid, cell)
