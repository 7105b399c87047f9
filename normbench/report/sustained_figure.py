"""How arms bore being run by themselves for a while: rate, clock, temperature and power over time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from math import inf

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..cases.case import Norm
from ..drawing.canvas import INK, grid, panels
from ..records.measurement import Sustained
from ..results.derived import Result
from ..results.rates import rate_series
from .companies import Company
from .rate_figure import ArmStyle, arm_style

__all__ = ["sustained_figure"]

_Series = list[tuple[float, float]]
_PANELS = {"tokens/s": None, "clock, MHz": "clock_mhz", "temperature, °C": "temperature_c", "power, W": "power_w"}
"""Axis, and the series of a record behind it; the rate is derived."""


def sustained_figure(companies: Sequence[Company]) -> Figure | None:
    """Return the sustained runs over time, a column per company and a row per figure that was read at all.

    None when no arm has two moments. Crosses mark the moments at which the device throttled, all of them where it is not recorded which.
    """
    shown = [company for company in companies if any(_moments(one) for _, _, one in company.ordered)]
    if not shown:
        return None
    rows = [title for title in _PANELS if any(_points(title, one) for company in shown for _, _, one in company.ordered)]
    providers = list(dict.fromkeys(name for company in shown for name in company.providers))
    figure, axes = panels(len(rows) * len(shown), len(shown), 1.9, 1.2, are_alike=False)
    names: dict[str, Line2D] = {}
    for place, axis in enumerate(axes):
        title, company = rows[place // len(shown)], shown[place % len(shown)]
        for norm, provider, one in company.ordered:
            _draw(axis, _points(title, one), _throttled_at(one), _style(norm, provider, providers))
            if _moments(one):
                why = one.record.sustained.throttled if one.record.sustained is not None else None
                name = f"{norm.value}, {provider}" + (f" (crosses: throttled, {why})" if why else "")
                names[name] = Line2D([], [], linewidth=1.2, label=name, **_style(norm, provider, providers))  # type: ignore[arg-type]
        axis.set_xlim(0, 1.03 * _end_s(company))
        _label(axis, title, is_first=place % len(shown) == 0, is_last=place // len(shown) == len(rows) - 1)
        if place < len(shown):
            axis.set_title(company.place, fontsize=10, color=INK)
    setting = shown[0].setting
    figure.suptitle(f"Each arm by itself, {setting.title}\n{setting.circumstances}", fontsize=11)
    figure.legend(handles=list(names.values()), loc="outside lower center", ncols=min(3, len(names)), fontsize=8, frameon=False)
    return figure


def _moments(one: Result) -> bool:
    return one.rate is not None and one.record.sustained is not None and len(one.record.sustained.at_s) >= 2


def _end_s(company: Company) -> float:
    """Return the last moment of any arm of a company: what stands below each other has one axis of time."""
    return max(one.record.sustained.at_s[-1] for _, _, one in company.ordered if _moments(one) and one.record.sustained is not None)


def _throttled_at(one: Result) -> set[float]:
    """Return the moments at which the device throttled."""
    sustained = one.record.sustained
    if sustained is None or sustained.throttled is None:
        return set()
    slowdowns = sustained.slowdowns or (sustained.throttled,) * len(sustained.at_s)
    return {at_s for at_s, why in zip(sustained.at_s, slowdowns, strict=True) if why is not None}


def _points(title: str, one: Result) -> _Series:
    """Return seconds and value of what a panel shows of an arm; what could not be read has no point."""
    if not _moments(one) or one.record.sustained is None:
        return []
    name = _PANELS[title]
    return rate_series(one.record.sustained, one.record.metric) if name is None else _read(one.record.sustained, name)


def _read(sustained: Sustained, name: str) -> _Series:
    values = sustained.series.get(name, ())
    return [(at_s, value) for at_s, value in zip(sustained.at_s, values, strict=False) if value is not None]


def _style(norm: Norm, provider: str, providers: Sequence[str]) -> ArmStyle:
    return arm_style(norm, provider, providers) | {"marker": ""}


def _draw(axis: Axes, points: _Series, throttled_at: Set[float], style: ArmStyle) -> None:
    plot: Callable[..., object] = axis.plot
    if points:
        plot([at_s for at_s, _ in points], [value for _, value in points], linewidth=1.2, **style)
    # A point stands for all moments since the one before.
    befores = [-inf, *(at_s for at_s, _ in points)]
    if marked := [point for before, point in zip(befores, points, strict=False) if any(before < at_s <= point[0] for at_s in throttled_at)]:
        plot([at_s for at_s, _ in marked], [value for _, value in marked], color=style["color"], marker="x", markersize=4, linestyle="")


def _label(axis: Axes, title: str, *, is_first: bool, is_last: bool) -> None:
    # From 0: a rate that falls by a percent must look like that. Clocks and temperatures have no such zero.
    if title in ("tokens/s", "power, W"):
        axis.set_ylim(0, 1.08 * max((value for line in axis.lines for value in np.asarray(line.get_ydata(), float)), default=1.0))
    grid(axis)
    axis.tick_params(labelsize=8, labelbottom=is_last)
    axis.ticklabel_format(axis="y", useOffset=False, style="plain")
    if is_first:
        axis.set_ylabel(title, fontsize=9)
    if is_last:
        axis.set_xlabel("seconds since its start", fontsize=9)
