"""How sure several seeds make a figure: its mean with an interval over seeds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec

from ..quantities.stats import mean_interval
from ..quantities.units import DASH

__all__ = ["Spread", "spread_of"]


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the mean over the seeds whose figure is finite, Student's 95 % interval (null below two of them), and the counts."""

    mean: float | None
    low: float | None
    high: float | None
    finite: int
    seeds: int

    @property
    def is_finite(self) -> bool:
        """Say whether more than half of the seeds ended finite."""
        return 2 * self.finite > self.seeds

    def text(self, digits: int = 2) -> str:
        """Return e.g. `2.31 (2.29–2.33)`; says how many seeds were not finite."""
        lost = self.seeds - self.finite
        if self.mean is None:
            return f"NaN ({lost} of {self.seeds})" if self.seeds > 1 else "NaN"
        shown = f"{self.mean:.{digits}f}"
        if self.low is not None and self.high is not None:
            shown += f" ({self.low:.{digits}f}{DASH}{self.high:.{digits}f})"
        return f"{shown}, NaN in {lost} of {self.seeds}" if lost else shown


def spread_of(values: Sequence[float]) -> Spread:
    """Return the spread of one figure per seed. Raises ValueError without any."""
    if not values:
        raise ValueError("a spread of no seed")
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return Spread(mean=None, low=None, high=None, finite=0, seeds=len(values))
    found = mean_interval(finite, "seed")
    return Spread(mean=found.estimate, low=found.low, high=found.high, finite=len(finite), seeds=len(values))
