"""What a reader must know besides the figures: what was not measured and why, and what looks odd. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from ..cases.case import Tier
from ..cases.conditions import Cache, Pages
from ..cases.definition import Definition
from ..quantities.stats import is_launch_bound
from ..quantities.units import DASH, duration, join_words, number, percent, some
from ..records.record import Record, Role, Status
from ..results.derived import Result
from ..text.markdown import escape
from .tables import Table

__all__ = ["Unmeasured", "first_call_table", "oddities", "peak_gbps", "unmeasured"]

_COPY_CEILING = 1.5
_FIXED_COST_BYTES = 2**20
"""Below this a call's fixed cost decides its time, and its share of the copy says nothing about bandwidth."""
_WIDE = 0.10
_BUSY = 0.10
_NEW_PAGES = 0.10
"""Of one output's pages, per call: at 5 us a page and 10 GB/s that is a tenth of the time of a copy."""


class Unmeasured(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the records that ended the same way for the same reason: `reasons` by key of the record, `reason` the first of them."""

    status: str
    reason: str
    providers: list[str]
    reasons: dict[str, str]


def unmeasured(results: Iterable[Result]) -> list[Unmeasured]:
    """Return everything without a time, grouped by status and reason, in the order in which it was met.

    Reasons that differ in numbers only (rows, bytes) are one kind, and say so.
    """
    grouped: dict[tuple[str, str], list[tuple[Result, str]]] = {}
    for result in results:
        if result.time is None:
            status = result.record.status.value if not result.problem else "no time"
            reason = result.problem or result.record.reason or "no reason was recorded"
            grouped.setdefault((status, re.sub(r"\d+", "0", reason)), []).append((result, reason))
    return [
        Unmeasured(
            status=status,
            reason=group[0][1] + ("" if len({reason for _, reason in group}) == 1 else " (elsewhere with other numbers)"),
            providers=list(dict.fromkeys(one.record.provider for one, _ in group)),
            reasons={one.record.key: reason for one, reason in group},
        )
        for (status, _), group in grouped.items()
    ]


def first_call_table(results: Iterable[Result]) -> Table | None:
    """Return what the first call cost per provider, compilation included; None when it was not taken."""
    costs: dict[str, list[tuple[float, str]]] = {}
    for result in results:
        if result.record.role is Role.PROVIDER and result.record.first_call_s is not None:
            cached = ", found in its cache" if result.record.settings.get("compile_cache") == "hit" else ""
            costs.setdefault(result.record.provider + cached, []).append((result.record.first_call_s, result.record.case_id))
    if not costs:
        return None
    rows = []
    for name, taken in costs.items():
        most, where = max(taken)
        rows.append([escape(name), str(len(taken)), duration(median(cost for cost, _ in taken)), duration(most), escape(where)])
    return Table(["provider", "cases", "median", "most", "at"], rows)


def peak_gbps(machine: dict[str, object]) -> float | None:
    """Return the memory bandwidth that the measured device can reach by its data sheet or clocks, or None when not known."""
    device = machine.get("device")
    value = device.get("peak_gbps") if isinstance(device, dict) else None
    return float(value) if isinstance(value, int | float) and value > 0 else None


def oddities(results: Iterable[Result], peak: float | None) -> list[str]:
    """Return one sentence for each kind of thing that deserves a second look, with where it was seen; controls are left out."""
    results = [result for result in results if result.record.role is Role.PROVIDER]
    sentences = _departures(results)
    # With a warm cache the data may never leave it, and no memory's peak applies.
    cold = [one for one in results if one.record.conditions.cache is Cache.COLD]
    if peak is not None and (above := [one for one in cold if one.gbps is not None and one.gbps > peak]):
        sentences.append(
            f"**error**: above the device's peak of {number(peak)} GB/s, so the time or the byte model is wrong: {_where(above)}"
        )
    if high := [one for one in results if (one.copy_share or 0.0) > _COPY_CEILING and (one.bytes_moved or 0) >= _FIXED_COST_BYTES]:
        most = max(one.copy_share for one in high if one.copy_share is not None)
        sentences.append(
            f"more than {_COPY_CEILING:g} times the bandwidth of a copy of the same size (up to {percent(most)}); check that the call does "
            f"all of its work: {_where(high)}"
        )
    if launch_bound := [one for one in results if is_launch_bound(one.record.measurement)]:
        sentences.append(f"launch-bound: the host took longer to launch it than the device to run it: {_where(launch_bound)}")
    if throttled := [one for one in results if one.record.status is Status.THROTTLED]:
        sentences.append(f"the device throttled meanwhile: {_where(throttled)}")
    if wide := [one for one in results if one.time and (one.time.half_width or 0.0) > _WIDE]:
        sentences.append(f"interval wider than ±{percent(_WIDE)}; a larger `--budget` narrows it: {_where(wide)}")
    if busy := [one for one in results if one.time and _others_share(one.record) > _BUSY]:
        most = max(_others_share(one.record) for one in busy)
        sentences.append(
            f"other processes or the hypervisor took up to {percent(most)} of the usable cores while it was timed; let nothing else run, "
            f"or use fewer `--threads` than cores: {_where(busy)}"
        )
    if faulting := [one for one in results if one.time and _new_pages_share(one.record) > _NEW_PAGES]:
        sentences.append(f"new pages were met although pages were to be reused, so part of the time is the kernel's: {_where(faulting)}")
    if single := [one for one in results if one.time and one.time.low is None]:
        sentences.append(f"measured only once, so without an interval: {_where(single)}")
    if within := [one for one in results if one.time and one.time.low is not None and one.time.unit.kind != "process"]:
        sentences.append(f"measured in one process, so the interval leaves out what differs from process to process: {_where(within)}")
    if apart := [one for one in results if one.time and one.speedup is None]:
        reasons = join_words(sorted({one.speedup_missing or DASH for one in apart}))
        sentences.append(f"no speed-up ({reasons}): {_where(apart)}")
    return sentences


def _departures(results: Iterable[Result]) -> list[str]:
    """Return one sentence for each provider and formula of its own: what it computes, and how far that is from the norm's."""
    grouped: dict[tuple[str, Definition], list[Result]] = {}
    for one in results:
        if one.record.departure is not None:
            grouped.setdefault((one.record.provider, one.record.departure.definition), []).append(one)
    sentences = []
    for (provider, definition), found in grouped.items():
        apart = [entry for one in found if one.record.departure for entry in one.record.departure.accuracy if entry.ulps is not None]
        most = max(apart, key=lambda entry: entry.ulps or 0.0, default=None)
        distance = (
            "how far apart the two are was not measured"
            if most is None or most.ulps is None or most.max_abs is None
            else f"they are up to {number(most.ulps, 2)} ulps of {most.dtype} ({number(most.max_abs, 2)}) apart, in {escape(most.tensor)}"
        )
        kind = "**another formula**" if definition.is_another_function else "another rounding"
        sentences.append(
            f"{kind}: `{escape(provider)}` computes {definition.text}, and was checked against that, not the norm's own formula; "
            f"{distance}: {_where(found)}"
        )
    return sentences


def _others_share(record: Record) -> float:
    blocks = record.measurement.blocks if record.measurement else ()
    return max((block.others_cpu_share or 0.0 for block in blocks), default=0.0)


def _new_pages_share(record: Record) -> float:
    """Return the new pages of a call that should have met none, in any process, as a share of the pages of one output."""
    if record.conditions.pages is not Pages.REUSED or record.measurement is None or record.case.tier is not Tier.OP:
        return 0.0
    pages = max(1.0, record.case.numel * record.case.dtype.itemsize / 4096)
    return max((block.page_faults_per_call or 0.0) for block in record.measurement.blocks) / pages


def _where(results: Sequence[Result], most: int = 4) -> str:
    return some([f"`{result.record.key}`" for result in results], most)
