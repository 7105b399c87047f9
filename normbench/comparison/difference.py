"""From two readings of one metric, taken at different times, to a ratio with an honest interval and a verdict. Pure.

Everything is computed on the log scale. Two runs of the same code differ by more than the spread inside either explains, so a
difference has three parts of variance: that of either reading, and what unchanged work moved from one run to the other (`drift.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import exp, expm1, inf, log, sqrt

import msgspec
from scipy.special import stdtrit

from ..cases.metric import Better
from ..gate.decide import LARGEST_LOG
from ..quantities.stats import Interval
from ..quantities.units import percent
from .drift import Drift

__all__ = ["DETECTABLE", "LEVEL", "POWER", "Difference", "Reading", "Verdict", "cost_range", "difference", "judge", "reading"]

LEVEL = 0.95
POWER = 0.9
DETECTABLE = 0.10
"""That no difference was seen is said only where one of this size would have been. Ten runs of the same code within 50 minutes, 12 rows
on one CPU thread of a virtual machine shared with other work, differed by 10 % in the root mean square: less is no use to ask for."""


class Verdict(StrEnum):
    """Say what two runs tell of one row, the most urgent first. Of a rate slower is less of it, and faster is more."""

    SLOWER = "slower"
    WRONG = "wrong"
    FAILED = "failed"
    MISSING = "missing"
    NOT_COMPARABLE = "not comparable"
    FASTER = "faster"
    INCONCLUSIVE = "inconclusive"
    NEW = "new"
    NO_DIFFERENCE = "no difference seen"
    NOT_MEASURED = "not measured"

    @property
    def is_compared(self) -> bool:
        """Say whether the two were compared and the comparison could tell."""
        return self in (Verdict.SLOWER, Verdict.FASTER, Verdict.NO_DIFFERENCE)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one run says of a metric: its log, the standard error of that, and the degrees of freedom behind it.

    `error` is null where one unit gives no spread, or where the spread is within one process and says nothing of the next.
    """

    log: float
    error: float | None
    freedom: int


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Hold after / before of one metric; what cannot be said is null.

    `ratio` is null where it is no finite number, `low` and `high` without an interval. `smallest_detectable` is the smallest worsening
    (0.02: 2 %) that is called one with a probability of `POWER`, of a rate as a share of the time
    that it stands for.
    """

    ratio: float | None
    low: float | None = None
    high: float | None = None
    level: float
    smallest_detectable: float | None = None

    @property
    def is_told(self) -> bool:
        """Say whether there is an interval that leaves no change out."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def reading(interval: Interval) -> Reading:
    """Return the reading behind an interval of `stats.py`, with a standard error as wide as that made the interval."""
    freedom = interval.unit.count - 1
    error = None
    if interval.low is not None and interval.high is not None and interval.unit.kind == "process":
        error = (log(interval.high) - log(interval.low)) / 2 / _quantile(freedom, interval.level)
    return Reading(log=log(interval.estimate), error=error, freedom=freedom)


def difference(before: Reading, after: Reading, drift: Drift, *, level: float) -> Difference:
    """Return after / before with an interval at `level`: Welch's, with the variance between runs as a third part.

    Degrees of freedom after Satterthwaite (Biometrics Bulletin 2, 1946, p. 110), each part with its own. There is no interval where a
    reading has no error or the drift is not known.
    """
    shift = after.log - before.log
    if not abs(shift) < LARGEST_LOG:
        return Difference(ratio=None, level=level)
    if before.error is None or after.error is None or not drift.is_known:
        return Difference(ratio=exp(shift), level=level)
    error, freedom = _combined([(before.error**2, before.freedom), (after.error**2, after.freedom), (drift.variance, drift.groups)])
    half = _quantile(freedom, level) * error
    seen = half + float(stdtrit(freedom, POWER)) * error
    if abs(shift) + seen >= LARGEST_LOG:
        return Difference(ratio=exp(shift), level=level)
    return Difference(ratio=exp(shift), low=exp(shift - half), high=exp(shift + half), level=level, smallest_detectable=expm1(seen))


def _combined(parts: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return the standard error and the degrees of freedom of a sum of variances with theirs."""
    total = sum(variance for variance, _ in parts)
    if not total:
        return 0.0, inf
    # Relative to the total: the square of a small variance may be too small for a number.
    return sqrt(total), 1.0 / sum((variance / total) ** 2 / freedom for variance, freedom in parts)


def _quantile(freedom: float, level: float) -> float:
    return float(stdtrit(freedom, 0.5 + level / 2))


def judge(
    direct: Difference,
    relative: Difference | None,
    *,
    better: Better = Better.LESS,
    metric: str = "time",
    floor: float = 0.0,
    detectable: float = DETECTABLE,
) -> tuple[Verdict, str]:
    """Return what a row says, and why. `better` is which way the metric is good, `metric` what it is called in words.

    `direct` is after / before of the metric, `relative` the same of the metric over that of a reference in the same run; None where
    there is no such reference. Each alone may be the machine's doing: the one if it slowed down for all, the other if the reference
    moved. So a change is called only where both tell it, in the same direction: of 46 pairs of runs of the same code, 12 rows each on a
    shared virtual machine, the time over the copy alone called a change in 5 and both together in 1. `floor` is the relative change
    below which none is called, whatever the intervals say; where a change of `detectable` could go unseen, it is not said that there
    is none.
    """
    if direct.ratio is None:
        return Verdict.NOT_COMPARABLE, "the ratio is not a finite number above zero"
    if direct.smallest_detectable is None:
        return Verdict.INCONCLUSIVE, "no interval"
    both = [direct, *([relative] if relative is not None and relative.smallest_detectable is not None else [])]
    told = [one for one in both if one.is_told]
    if told and len({_cost(one, better) > 0 for one in told}) == 2:
        return Verdict.INCONCLUSIVE, f"the {metric} and the {metric} over the reference changed in opposite directions"
    change = min((_cost(one, better) for one in both), key=abs)
    if len(told) == len(both):
        if expm1(abs(change)) < floor:
            return Verdict.NO_DIFFERENCE, f"the change of {percent(expm1(abs(change)))} is less than a call's own overhead"
        return (Verdict.SLOWER, f"worse by {_size(change)}") if change > 0 else (Verdict.FASTER, f"better by {_size(change)}")
    if told:
        word = "worse" if _cost(told[0], better) > 0 else "better"
        which = metric if direct.is_told else f"{metric} over the reference"
        return Verdict.INCONCLUSIVE, f"only the {which} is {word}, by {_size(_cost(told[0], better))}"
    seen = max(one.smallest_detectable for one in both if one.smallest_detectable is not None)
    if seen > detectable:
        return Verdict.INCONCLUSIVE, "too noisy"
    return Verdict.NO_DIFFERENCE, f"a change of {percent(seen)} would have been seen"


def _cost(found: Difference, better: Better) -> float:
    """Return the log of the ratio with the sign that makes worse positive."""
    assert found.ratio is not None
    return better.cost_sign * log(found.ratio)


def _size(change: float) -> str:
    return percent(expm1(abs(change)))


def cost_range(direct: Difference, relative: Difference | None, *, better: Better = Better.LESS) -> tuple[float, float] | None:
    """Return the ends of all intervals together, as logs with the sign that makes worse positive; None without an interval."""
    both = [one for one in (direct, relative) if one is not None and one.low is not None and one.high is not None]
    ends = [better.cost_sign * log(end) for one in both for end in (one.low, one.high) if end is not None]
    return (min(ends), max(ends)) if ends else None
