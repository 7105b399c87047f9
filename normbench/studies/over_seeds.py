"""Observations that differ in nothing but their seed, together: figures as spreads and curves as lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..quantities.units import count
from .findings import Line, Point
from .observation import Observation
from .spread import Spread, spread_of

__all__ = ["by", "chosen", "count_true", "line", "spread"]


def chosen(observations: Sequence[Observation], **setting: str | int | float) -> list[Observation]:
    """Return the observations whose setting has all of these values."""
    return [one for one in observations if one.matches(**setting)]


def by(observations: Sequence[Observation], name: str) -> dict[str | int | float, list[Observation]]:
    """Return the observations by one value of their settings, in the order in which values first appear."""
    groups: dict[str | int | float, list[Observation]] = {}
    for one in observations:
        if name in one.setting:
            groups.setdefault(one.setting[name], []).append(one)
    return groups


def spread(observations: Sequence[Observation], name: str) -> Spread:
    """Return the spread of one figure over observations, one for each seed."""
    return spread_of([one.value(name) for one in observations])


def count_true(values: Sequence[bool]) -> str:
    """Return e.g. `2 of 3 seeds`."""
    return f"{sum(values)} of {count(len(values), 'seed')}"


def line(name: str, observations: Sequence[Observation], curve: str) -> Line:
    """Return the mean of a curve over seeds with an interval at each x, from the seeds that are finite there."""
    points: dict[float, list[float]] = {}
    for one in observations:
        for x, y in one.curve(curve):
            points.setdefault(x, []).append(y)
    found = []
    for x, values in sorted(points.items()):
        figure = spread_of(values)
        if figure.mean is not None:
            found.append(Point(x, figure.mean, figure.low, figure.high))
    return Line(name=name, points=tuple(found))
