"""From raw samples to medians, intervals and ratios. Pure.

Everything is computed on the log scale, so that a ratio and its inverse have mirrored intervals. The units of an interval are
the processes a case was measured in: turns inside a process share its physical pages and say nothing about the next process.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, hypot, log, sqrt
from statistics import fmean, median, stdev

import msgspec
from scipy.special import stdtrit

from ..records.measurement import UNHELD, Block, Measurement

__all__ = [
    "RATIO_WIDENING",
    "TIME_WIDENING",
    "Interval",
    "Unit",
    "block_log_medians",
    "independent_ratio",
    "is_launch_bound",
    "log_interval",
    "mean_interval",
    "pooled_samples",
    "ratio_interval",
    "ratio_or_none",
    "time_interval",
]

LEVEL = 0.95
_LAUNCHES_ALONE = 0.9
"""Share of a call's time that launching it takes where the device waits for the host throughout."""

TIME_WIDENING = 2.0
RATIO_WIDENING = 1.5
"""How much wider than Student's an interval is, so that it holds for the next run and not only for this one.

The blocks of a run see the machine in the mood of its minutes, and moods wander together for all cases: on a shared virtual machine
times fell by 30 % and rose again within 12 minutes. Student's interval over processes then covered what the other runs saw in 82
of 120 cases for times and in 51 of 60 for ratios; times 2 in 110, and times 1.5 in 56 (12 runs, one CPU thread, 10 cases;
`python -m normbench.measure.coverage` says what it is elsewhere).
"""


class Unit(msgspec.Struct, frozen=True):
    """Name what the spread was taken over (`process` or `repetition`) and how many there were."""

    kind: str
    count: int


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Hold an estimate and its confidence interval. `low` and `high` are null when one unit gives no spread."""

    estimate: float
    low: float | None
    high: float | None
    level: float = LEVEL
    unit: Unit

    @property
    def half_width(self) -> float | None:
        """Return half the interval's width relative to the estimate, or None without an interval."""
        if self.low is None or self.high is None:
            return None
        return sqrt(self.high / self.low) - 1.0

    def contains(self, value: float) -> bool:
        """Say whether the interval exists and contains `value`."""
        return self.low is not None and self.high is not None and self.low <= value <= self.high

    def excludes(self, value: float) -> bool:
        """Say whether the interval exists and does not contain `value`."""
        return self.low is not None and not self.contains(value)


def mean_interval(values: Sequence[float], unit: str, level: float = LEVEL, *, widening: float = 1.0) -> Interval:
    """Return the mean with Student's t interval over the units, made `widening` times as wide; with a single one the interval is null."""
    count = len(values)
    centre = fmean(values)
    if count < 2:
        return Interval(estimate=centre, low=None, high=None, level=level, unit=Unit(unit, count))
    half = widening * float(stdtrit(count - 1, 0.5 + level / 2)) * stdev(values) / sqrt(count)
    return Interval(estimate=centre, low=centre - half, high=centre + half, level=level, unit=Unit(unit, count))


def log_interval(logs: Sequence[float], unit: str, level: float = LEVEL, *, widening: float = 1.0) -> Interval:
    """Return the geometric mean of exp(logs) with its interval, which is that of the mean of the logs, one per unit."""
    mean = mean_interval(logs, unit, level, widening=widening)
    low, high = (None if end is None else exp(end) for end in (mean.low, mean.high))
    return Interval(estimate=exp(mean.estimate), low=low, high=high, level=level, unit=mean.unit)


def _repetition_logs(block: Block) -> list[float]:
    return [log(median(turns)) for turns in block.samples_s]


def block_log_medians(measurement: Measurement) -> list[float]:
    """Return one value per process: the median over its repetitions of the log of each repetition's median, in log seconds."""
    return [median(_repetition_logs(block)) for block in measurement.blocks]


def _by_unit(per_block: list[list[float]]) -> tuple[list[float], str]:
    """Take processes as units; with a single process fall back to its repetitions, which the unit's name then says."""
    if len(per_block) > 1:
        return [median(values) for values in per_block], "process"
    return per_block[0], "repetition"


def time_interval(measurement: Measurement, level: float = LEVEL) -> Interval:
    """Return the time of one call in seconds: the geometric mean over processes of each process's median, with its interval.

    The interval is Student's, `TIME_WIDENING` times as wide.
    """
    logs, unit = _by_unit([_repetition_logs(block) for block in measurement.blocks])
    return log_interval(logs, unit, level, widening=TIME_WIDENING)


def ratio_interval(numerator: Measurement, denominator: Measurement, level: float = LEVEL) -> Interval:
    """Return time(numerator) / time(denominator) of two providers that took turns, with its interval.

    Each repetition gives one ratio of medians, each process the median of its repetitions; the interval is Student's,
    `RATIO_WIDENING` times as wide. Raises ValueError when the two were not taken together (numbers of processes or repetitions
    differ).
    """
    per_block = []
    if len(numerator.blocks) != len(denominator.blocks):
        raise ValueError("the two measurements were not taken together: they have different numbers of processes")
    for above, below in zip(numerator.blocks, denominator.blocks, strict=True):
        if len(above.samples_s) != len(below.samples_s):
            raise ValueError("the two measurements were not taken together: they have different numbers of repetitions")
        per_block.append([a - b for a, b in zip(_repetition_logs(above), _repetition_logs(below), strict=True)])
    logs, unit = _by_unit(per_block)
    return log_interval(logs, unit, level, widening=RATIO_WIDENING)


def ratio_or_none(numerator: Measurement | None, denominator: Measurement | None) -> Interval | None:
    """Return `ratio_interval`, or None without one of the two, and where they have none: taken apart, or samples that are no times."""
    if numerator is None or denominator is None:
        return None
    try:
        return ratio_interval(numerator, denominator)
    except ValueError:
        return None


def independent_ratio(above: Interval, below: Interval) -> Interval:
    """Return above / below of two that did not take turns. Variances add on the log scale, and so do squared half-widths."""
    centre = log(above.estimate / below.estimate)
    unit = Unit(above.unit.kind, min(above.unit.count, below.unit.count))
    if above.low is None or above.high is None or below.low is None or below.high is None:
        return Interval(estimate=exp(centre), low=None, high=None, level=above.level, unit=unit)
    half = hypot(log(above.high / above.low), log(below.high / below.low)) / 2
    return Interval(estimate=exp(centre), low=exp(centre - half), high=exp(centre + half), level=above.level, unit=unit)


def is_launch_bound(measurement: Measurement | None) -> bool:
    """Say whether the host took longer to launch a call than the device to run it, where that was measured.

    Where launching is part of a call's time it cannot take longer; then it is bound by it if the device was done with it at once.
    """
    blocks = measurement.blocks if measurement is not None else ()
    host = [sample for block in blocks for turns in block.host_s or () for sample in turns]
    if measurement is None or not host:
        return False
    share = _LAUNCHES_ALONE if measurement.timer == UNHELD else 1.0
    return median(host) > share * median(pooled_samples(measurement))


def pooled_samples(measurement: Measurement) -> list[float]:
    """Return every sample of every process in one list, seconds per call, in the order they were taken."""
    return [sample for block in measurement.blocks for turns in block.samples_s for sample in turns]
