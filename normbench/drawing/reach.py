"""How far an axis reaches: over whole intervals, unless one would press all that was measured together; such a one ends in an arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log10

from matplotlib.axes import Axes

from .canvas import ticks_within, value_ticks

__all__ = ["ARROWS", "limits", "log_limits", "log_ticks", "mark_cut"]

ARROWS = "arrow: the interval goes on"
"""What a label says where `mark_cut` has drawn any."""
_MARGIN = 0.05
_LEAST_DECADES = 1.0


def limits(values: Sequence[float], ends: Iterable[float], *, least: float) -> tuple[float, float]:
    """Return limits that hold the values and the ends of their intervals, but beyond the values no more than their span or `least`."""
    low, high = min(values), max(values)
    most = max(high - low, least)
    there = list(ends)
    low, high = max(min([low, *there]), low - most), min(max([high, *there]), high + most)
    margin = _MARGIN * ((high - low) or least)
    return low - margin, high + margin


def log_limits(values: Sequence[float], ends: Iterable[float]) -> tuple[float, float]:
    """Return `limits` for a logarithmic axis, where an interval may reach a decade beyond the values; ends of 0 and below have no place."""
    low, high = limits([log10(value) for value in values], [log10(end) for end in ends if end > 0], least=_LEAST_DECADES)
    return 10.0**low, 10.0**high


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of an axis with these limits: 1, 2, 5 times powers of ten, or round numbers where there are less than two of those."""
    return ticks_within(value_ticks([low, high]), low, high)


def mark_cut(axis: Axes, intervals: Iterable[tuple[float, float, float]], colour: str, *, along: str = "y") -> int:
    """Draw an arrow at the edge of `along` for each end of an interval (place, low, high) that is beyond the limits; return how many."""
    least, most = sorted(axis.get_ylim() if along == "y" else axis.get_xlim())
    count = 0
    for place, low, high in intervals:
        for is_beyond, edge, marker in ((low < least, least, "v<"), (high > most, most, "^>")):
            if is_beyond:
                x, y = (place, edge) if along == "y" else (edge, place)
                axis.plot([x], [y], color=colour, marker=marker[along == "x"], markersize=5, linestyle="", clip_on=False, zorder=4)
                count += 1
    return count
