"""Figures with an interval, and what becomes of the interval when independent figures are added, multiplied and divided. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import msgspec

from .stats import Interval

__all__ = ["Estimate"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a figure and half of its 95 % interval, both in the figure's units; `half` is null where there is no interval.

    Operations take their operands for independent and small beside their figures: half-widths add as squares, to first order.
    """

    value: float
    half: float | None = None

    @classmethod
    def of(cls, interval: Interval) -> Estimate:
        """Return an interval as an estimate; of its two sides the wider one counts."""
        if interval.low is None or interval.high is None:
            return cls(value=interval.estimate)
        return cls(value=interval.estimate, half=max(interval.high - interval.estimate, interval.estimate - interval.low))

    @classmethod
    def total(cls, parts: Iterable[Estimate]) -> Estimate:
        """Return the sum of estimates, 0 of none."""
        parts = list(parts)
        return cls(value=sum(part.value for part in parts), half=_root([part.half for part in parts]))

    @property
    def low(self) -> float | None:
        return None if self.half is None else self.value - self.half

    @property
    def high(self) -> float | None:
        return None if self.half is None else self.value + self.half

    @property
    def is_resolved(self) -> bool:
        """Say whether there is an interval and it leaves out 0."""
        return self.half is not None and abs(self.value) > self.half

    def __neg__(self) -> Estimate:
        return Estimate(value=-self.value, half=self.half)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate.total((self, other))

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate.total((self, -other))

    def __mul__(self, other: Estimate) -> Estimate:
        return Estimate(value=self.value * other.value, half=_root([_times(self.half, other.value), _times(other.half, self.value)]))

    def __truediv__(self, other: Estimate) -> Estimate:
        value = self.value / other.value
        return Estimate(value=value, half=_root([_times(self.half, 1 / other.value), _times(other.half, value / other.value)]))


def _times(half: float | None, factor: float) -> float | None:
    return None if half is None else half * factor


def _root(halves: list[float | None]) -> float | None:
    known = [half for half in halves if half is not None]
    return sqrt(sum(half**2 for half in known)) if len(known) == len(halves) else None
