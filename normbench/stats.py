"""From raw samples to medians, intervals and ratios. Pure.

Everything is computed on the log scale, so that a ratio and its inverse have mirrored intervals. The units of an interval are
the processes a case was measured in: turns inside a process share its physical pages and say nothing about the next process.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import fmean, median, stdev

import msgspec
from scipy.special import stdtrit

from .measurement import Block, Measurement

__all__ = [
    "RATIO_WIDENING",
    "TIME_WIDENING",
    "Interval",
    "Unit",
    "block_log_medians",
    "log_interval",
    "pooled_samples",
    "ratio_interval",
    "time_interval",
]

LEVEL = 0.95

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


def log_interval(logs: Sequence[float], unit: str, level: float = LEVEL, *, widening: float = 1.0) -> Interval:
    """Return the geometric mean of exp(logs) with Student's t interval over the units, made `widening` times as wide (in logs).

    `logs` holds one log value per unit. With a single one the interval is null.
    """
    count = len(logs)
    centre = fmean(logs)
    if count < 2:
        return Interval(estimate=exp(centre), low=None, high=None, level=level, unit=Unit(unit, count))
    half = widening * float(stdtrit(count - 1, 0.5 + level / 2)) * stdev(logs) / sqrt(count)
    return Interval(estimate=exp(centre), low=exp(centre - half), high=exp(centre + half), level=level, unit=Unit(unit, count))


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


def pooled_samples(measurement: Measurement) -> list[float]:
    """Return every sample of every process in one list, seconds per call, in the order they were taken."""
    return [sample for block in measurement.blocks for turns in block.samples_s for sample in turns]
