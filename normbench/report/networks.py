"""Networks as tables and sentences: times, and what a change of their norms saves beside what it was expected to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..cases.case import Norm, Pass
from ..cases.model_case import ModelCase
from ..quantities.estimate import Estimate
from ..quantities.units import DASH, TIMES, bytes_text, duration, join_words, number, plus_minus
from ..records.record import NO_NORM, Record, Role
from ..results.attribution import Attribution
from ..results.derived import BASELINE, Result
from ..storage.stored_run import RunInfo
from ..text.markdown import escape
from .commands import network_command
from .hints import hints
from .tables import NO_DIFFERENCE, Table, describe_conditions, on_machine

__all__ = ["NetworkSection", "change_text", "network_answers", "network_sections", "networks_circumstances", "saving_text"]


class NetworkSection(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what is told of one network in one size, dtype and set of conditions; `savings` is None where nothing can be compared."""

    title: str
    circumstances: str
    times: Table
    savings: Table | None
    hints: list[str]
    memory: Table | None
    command: str


def saving_text(estimate: Estimate | None) -> str:
    """Return a saving in percent with half its interval, and that it cannot be told from 0 where that is so."""
    if estimate is None:
        return DASH
    return plus_minus(estimate.value, estimate.half) + ("" if estimate.is_resolved or estimate.half is None else f" {NO_DIFFERENCE}")


def change_text(found: Attribution) -> str:
    """Return what changes, e.g. `layer_norm → rms_norm, aten`."""
    before, after = found.before, found.after
    if found.is_of_norm:
        return f"{before.case.norm.value} → {after.case.norm.value}, {escape(before.provider)}"
    return f"{before.case.norm.value}, {escape(before.provider)} → {escape(after.provider)}"


def networks_circumstances(results: Iterable[Result]) -> list[str]:
    """Return tier and conditions of every network's results, each once."""
    return list(
        dict.fromkeys(
            f"model tier; {describe_conditions(one.record.conditions)}{on_machine(one.record.machine)}"
            for one in results
            if isinstance(one.record.case, ModelCase)
        )
    )


def network_answers(found: Sequence[Attribution]) -> list[str]:
    """Return one sentence per pass, dtype, conditions and change, over all networks: what is saved where, and what could be at most."""
    grouped: dict[tuple[object, ...], list[Attribution]] = {}
    for one in sorted(found, key=_order):
        if one.observed is not None:
            words = (one.case.pass_, one.case.dtype, one.before.conditions, change_text(one), one.before.machine)
            grouped.setdefault(words, []).append(one)
    several = len({one.before.conditions for one in found}) > 1
    return [
        f"**{pass_.value}, {one[0].case.dtype.value}**, {change}{f' ({one[0].before.conditions.id})' if several else ''}"
        f"{on_machine(one[0].before.machine)}: {_over_networks(one)}"
        for (pass_, _, _, change, _), one in grouped.items()
        if isinstance(pass_, Pass)
    ]


def _order(one: Attribution) -> tuple[bool, int, str]:
    """Return what sorts changes of the norm before those of the provider, and inference before training."""
    return not one.is_of_norm, list(Pass).index(one.case.pass_), change_text(one)


def _over_networks(found: Sequence[Attribution]) -> str:
    resolved = [(one, one.observed) for one in found if one.observed is not None and one.observed.is_resolved]
    untold = [one.observed for one in found if one.observed is not None and not one.observed.is_resolved]
    saves = sorted((pair for pair in resolved if pair[1].value > 0), key=lambda pair: -pair[1].value)
    costs = sorted((pair for pair in resolved if pair[1].value < 0), key=lambda pair: pair[1].value)
    parts = []
    for word, pairs, sign in (("saves", saves, 1), ("costs", costs, -1)):
        if pairs:
            told = join_words(f"{plus_minus(sign * saving.value, saving.half)} of {_label(one)}" for one, saving in pairs)
            parts.append(f"{word} {told}")
    if untold:
        halves = sorted(saving.half for saving in untold if saving.half is not None)
        least = " to ".join(dict.fromkeys(number(100 * half, 2) for half in (halves[0], halves[-1]))) if halves else ""
        seen = f", where {least} % could have been told" if halves else ""
        parts.append(f"unresolved at {len(untold)} of {len(found)}{seen}")
    if bounds := [(one, one.bound) for one in found if one.bound is not None]:
        one, most = max(bounds, key=lambda pair: pair[1].value)
        parts.append(f"norms of no cost would save {plus_minus(most.value, most.half)} at most ({_label(one)})")
    return "; ".join(parts)


def _label(found: Attribution) -> str:
    return found.case.label


def network_sections(info: RunInfo, results: Sequence[Result], found: Sequence[Attribution]) -> list[NetworkSection]:
    """Return a section for each network, size, dtype and set of conditions, in the order in which they were met."""
    grouped: dict[tuple[object, ...], list[Result]] = {}
    for one in results:
        if isinstance(one.record.case, ModelCase):
            grouped.setdefault(_address(one.record), []).append(one)
    return [
        _section(info, members, sorted((one for one in found if _address(one.before) == address), key=_order))
        for address, members in grouped.items()
    ]


def _address(record: Record) -> tuple[object, ...]:
    case = record.case
    assert isinstance(case, ModelCase), record.key
    return record.machine, case.label, case.size, case.dtype, record.conditions


def _section(info: RunInfo, results: Sequence[Result], found: Sequence[Attribution]) -> NetworkSection:
    record = results[0].record
    case = record.case
    assert isinstance(case, ModelCase), record.key
    providers = list(dict.fromkeys(one.record.provider for one in results if one.record.role is Role.PROVIDER))
    return NetworkSection(
        title=f"{case.label}, {case.shape_label}, {case.dtype.value}",
        circumstances=f"model tier; {describe_conditions(record.conditions)}{on_machine(record.machine)}",
        times=_grid(results, providers, _time_cell),
        savings=_savings(found) if found else None,
        hints=[f"{one.case.pass_.value}, {change_text(one)}: {'; '.join(told)}" for one in found if (told := hints(one))],
        memory=_grid(results, providers, _memory_cell) if any(one.record.memory for one in results) else None,
        command=network_command(info, results),
    )


def _grid(results: Sequence[Result], providers: Sequence[str], cell: Any) -> Table:
    """Lay out passes and norms x providers, and the network without norms beside them."""
    cells = {(one.record.case.pass_, one.record.case.norm, one.record.provider): one for one in results}
    without = {one.record.case.pass_: one for one in results if one.record.provider == NO_NORM}
    rows = []
    asked = {(one.record.case.pass_, one.record.case.norm) for one in results}
    for pass_, norm in sorted(asked, key=lambda pair: (list(Pass).index(pair[0]), list(Norm).index(pair[1]))):
        row = [cell(cells[pass_, norm, name]) if (pass_, norm, name) in cells else DASH for name in providers]
        rows.append([pass_.value, norm.value, *row, cell(without[pass_]) if pass_ in without else DASH])
    return Table(["pass", "norm", *map(escape, providers), "no norms"], rows)


def _time_cell(result: Result) -> str:
    if result.time is None:
        return "no time" if result.problem else result.record.status.value
    half = Estimate.of(result.time).half
    text = duration(result.time.estimate) + (f" ± {number(100 * half / result.time.estimate, 2)} %" if half is not None else "")
    if result.record.role is Role.CONTROL or result.record.provider == BASELINE or result.speedup is None:
        return text
    return f"{text}<br>{number(result.speedup.estimate)}{TIMES}" + (f" {NO_DIFFERENCE}" if result.speedup.contains(1.0) else "")


def _memory_cell(result: Result) -> str:
    memory = result.record.memory
    if memory is None:
        return DASH
    both = (memory.peak_bytes, memory.saved_bytes)
    return " / ".join(DASH if count is None else bytes_text(count) for count in both)


def _savings(found: Sequence[Attribution]) -> Table:
    header = ["pass", "change", "norm calls", "share", "alone", "predicted", "bound", "observed", "residual"]
    return Table(header, [_saving_row(one) for one in found])


def _saving_row(one: Attribution) -> list[str]:
    share = DASH if one.share is None else plus_minus(one.share.value, one.share.half)
    alone = DASH if one.speedup is None else f"{number(one.speedup.value)}{TIMES}"
    figures = [saving_text(figure) for figure in (one.predicted, one.bound, one.observed, one.residual)]
    return [one.case.pass_.value, change_text(one), DASH if one.calls is None else str(one.calls), share, alone, *figures]
