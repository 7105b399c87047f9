"""From two runs to one row for each (case, conditions, provider): what either says, and what both together tell."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from ..cases.case import Tier
from ..cases.metric import TIME, Better, Metric
from ..quantities.stats import ratio_or_none, time_interval
from ..records.measurement import Measurement
from ..records.record import COPY, NO_NORM, Record, Role, Status
from ..results.derived import Result
from .difference import DETECTABLE, LEVEL, Difference, Reading, Verdict, difference, judge, reading
from .drift import Drift, drift_of
from .pairing import Arm, Pair, pair_up

__all__ = ["CALL_OVERHEAD_S", "REFERENCES", "Row", "Table", "TierDrift", "make_rows"]

REFERENCES = (COPY, NO_NORM)
"""Controls that a time is put over: of one call the copy of the same bytes, of a network the network without norms."""

CALL_OVERHEAD_S = 50e-9
"""What calling from Python costs by itself, 31 to 48 ns for an empty function: no difference below it is one of the function."""

_BROKEN = (Status.WRONG, Status.ERROR, Status.OOM)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one (case, conditions, provider) of two runs. Times in seconds; what a run has not, or cannot be formed, is null.

    `before` and `after` are in `unit`, that of the metric by which the row is judged, `better` which way that is good. `direct` is
    after / before of the metric, `relative` that of the metric over `reference`'s of the same run.
    """

    case: str
    conditions: str
    provider: str
    verdict: Verdict
    reason: str
    metric: str = TIME.name
    unit: str = TIME.unit
    better: Better = Better.LESS
    before: float | None = None
    after: float | None = None
    before_s: float | None = None
    after_s: float | None = None
    direct: Difference | None = None
    relative: Difference | None = None
    reference: str | None = None


class TierDrift(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how far the controls of a tier moved: their times, and their times over the reference's."""

    tier: Tier
    direct: Drift
    relative: Drift


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Hold all rows, the level of each row's interval, and what the controls of each tier did."""

    rows: tuple[Row, ...]
    level: float
    drifts: tuple[TierDrift, ...]


def make_rows(
    before: Sequence[Record],
    after: Sequence[Record],
    *,
    references: Sequence[str] = REFERENCES,
    across: Collection[str] = (),
    detectable: float = DETECTABLE,
) -> Table:
    """Return every row of two runs, in before's order.

    Intervals are at a level that makes all of them hold together with a probability of `LEVEL` (Bonferroni). Of `references`, which
    are controls or providers that were not changed, a row's is the first that took turns with it in both runs.
    """
    pairs = pair_up(before, after, Role.PROVIDER, across=across)
    controls = [pair for pair in pair_up(before, after, Role.CONTROL, across=across) if not pair.refused]
    drifts = {
        tier: TierDrift(tier=tier, direct=_drift(controls, tier, ()), relative=_drift(controls, tier, references))
        for tier in dict.fromkeys(pair.record.case.tier for pair in pairs)
    }
    level = 1.0 - (1.0 - LEVEL) / max(1, sum(map(_is_comparable, pairs)))
    rows = [
        _judged(pair, drifts[pair.record.case.tier], references, level, detectable) if _is_comparable(pair) else _unjudged(pair)
        for pair in pairs
    ]
    return Table(rows=tuple(rows), level=level, drifts=tuple(drifts.values()))


def _judged(pair: Pair, drift: TierDrift, references: Sequence[str], level: float, detectable: float) -> Row:
    """Return the row of a pair that has two times which may be compared."""
    reference = _reference(pair, references)
    direct = _difference(pair, None, drift.direct, level)
    assert direct is not None, pair.record.key
    relative = _difference(pair, reference, drift.relative, level) if reference is not None else None
    before_s = _time(pair.before)
    assert before_s is not None, pair.record.key
    metric = pair.record.metric
    verdict, reason = judge(
        direct, relative, better=metric.better, metric=_in_words(metric), floor=CALL_OVERHEAD_S / before_s, detectable=detectable
    )
    if verdict is Verdict.INCONCLUSIVE and direct.low is None:
        reason = _why_no_interval(pair, drift.direct)
    for name, arm in (("A", pair.before), ("B", pair.after)):
        if arm is not None and arm.record.status is Status.THROTTLED:
            verdict, reason = Verdict.INCONCLUSIVE, f"{name}: {arm.record.reason}"
    row = _row(pair, verdict, reason)
    return msgspec.structs.replace(row, direct=direct, relative=relative, reference=reference if relative is not None else None)


def _is_comparable(pair: Pair) -> bool:
    return not pair.refused and _time(pair.before) is not None and _time(pair.after) is not None


def _unjudged(pair: Pair) -> Row:
    """Return the row of a pair that has no two times, or none that may be compared."""
    before, after = pair.before, pair.after
    if after is None:
        assert before is not None
        if not before.record.status.is_measured:
            return _row(pair, Verdict.NOT_MEASURED, f"{_ended(before)} in A, not in B")
        return _row(pair, Verdict.MISSING, "measured in A, not in B")
    if after.record.status in _BROKEN and (before is None or before.record.status not in _BROKEN):
        if after.record.status is Status.WRONG:
            return _row(pair, Verdict.WRONG, f"B: {after.record.reason}")
        return _row(pair, Verdict.FAILED, f"{_ended(after)} in B: {after.record.reason}")
    if before is None:
        is_new = after.record.status.is_measured
        return _row(pair, Verdict.NEW if is_new else Verdict.NOT_MEASURED, "not in A" if is_new else f"{_ended(after)} in B, not in A")
    if not before.record.status.is_measured and not after.record.status.is_measured:
        same = before.record.status is after.record.status
        ended = f"{_ended(after)} in both" if same else f"{_ended(before)} in A, {_ended(after)} in B"
        return _row(pair, Verdict.NOT_MEASURED, f"{ended}: {after.record.reason}")
    if pair.refused:
        return _row(pair, Verdict.NOT_COMPARABLE, "; ".join(one.text for one in pair.refused))
    if not after.record.status.is_measured:
        return _row(pair, Verdict.FAILED, f"{_ended(after)} in B: {after.record.reason}")
    if not before.record.status.is_measured:
        return _row(pair, Verdict.NEW, f"{_ended(before)} in A: {before.record.reason}")
    name, odd = ("B", after) if after.result.time is None else ("A", before)
    return _row(pair, Verdict.NOT_COMPARABLE, f"{name}: {odd.result.problem}")


def _row(pair: Pair, verdict: Verdict, reason: str) -> Row:
    metric = _metric(pair)
    return Row(
        case=pair.record.case_id,
        conditions=pair.record.conditions.id,
        provider=pair.record.provider,
        verdict=verdict,
        reason=reason,
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        before=_value(pair.before, metric),
        after=_value(pair.after, metric),
        before_s=_time(pair.before),
        after_s=_time(pair.after),
    )


def _metric(pair: Pair) -> Metric:
    """Return what a pair is judged by: that of the run which has its time, where only one has."""
    if pair.before is not None and _time(pair.before) is not None and (pair.after is None or _time(pair.after) is None):
        return pair.before.record.metric
    return pair.record.metric


def _value(arm: Arm | None, metric: Metric) -> float | None:
    """Return a run's value of the metric that the row is judged by; None where the run has none, or is judged by another."""
    time_s = _time(arm)
    return None if arm is None or time_s is None or arm.record.metric != metric else metric.value(time_s)


def _in_words(metric: Metric) -> str:
    return "time" if metric == TIME else metric.unit


def _ended(arm: Arm) -> str:
    return arm.record.status.value


def _time(arm: Arm | None) -> float | None:
    return arm.result.time.estimate if arm is not None and arm.result.time is not None else None


def _why_no_interval(pair: Pair, drift: Drift) -> str:
    for name, arm in (("A", pair.before), ("B", pair.after)):
        if arm is not None and (arm.result.processes or 0) < 2:
            return f"{name} has it from one process only, which says nothing of the next"
    if not drift.is_known:
        return "no control was measured in both runs, so nothing tells how far apart two runs of the same code may be"
    return "too noisy for an interval"


def _reference(pair: Pair, references: Sequence[str]) -> str | None:
    """Return the first reference that took turns with both of a pair, or None."""
    return next((name for name in references if all(_reading(arm, name) is not None for arm in (pair.before, pair.after))), None)


def _difference(pair: Pair, reference: str | None, drift: Drift, level: float) -> Difference | None:
    """Return after / before of the metric, or with a reference of the metric over the reference's."""
    before, after = (_reading(arm, reference) for arm in (pair.before, pair.after))
    if before is None or after is None:
        return None
    if pair.record.metric.better is Better.MORE:
        # Calls of as many tokens in both: the ratio of rates is that of the times, upside down.
        before, after = after, before
    return difference(before, after, drift, level=level)


def _drift(controls: Sequence[Pair], tier: Tier, references: Sequence[str]) -> Drift:
    """Return how far the controls of a tier moved, or, with references, their times over the reference's."""
    groups: dict[tuple[str, str], list[float]] = {}
    for pair in controls:
        reference = _reference(pair, references)
        if pair.record.case.tier is not tier or (references and reference is None):
            continue
        before, after = (_reading(arm, reference) for arm in (pair.before, pair.after))
        if before is not None and after is not None:
            groups.setdefault((pair.record.case_id, pair.record.conditions.id), []).append(after.log - before.log)
    return drift_of(list(groups.values()))


def _reading(arm: Arm | None, reference: str | None) -> Reading | None:
    """Return what a run says of an arm's time, or of its time over the reference's.

    None where it has no time, and where it did not take turns with the reference or is the reference.
    """
    measurement = _measured(arm.result) if arm is not None else None
    if arm is None or measurement is None:
        return None
    if reference is None:
        return reading(time_interval(measurement))
    other = arm.beside.get(reference)
    below = _measured(other) if other is not None and other.record.key != arm.record.key else None
    # Without a ratio where they did not take turns, as when a run was resumed for one of them.
    ratio = ratio_or_none(measurement, below)
    return None if ratio is None else reading(ratio)


def _measured(result: Result) -> Measurement | None:
    return result.record.measurement if result.time is not None else None
