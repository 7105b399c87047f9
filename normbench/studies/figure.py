"""Panels of lines as a PNG, in the style of the reports. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite, log10

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ..drawing import canvas
from ..drawing.reach import log_ticks
from .findings import Panel, Point

__all__ = ["draw", "make_figure"]

_PANEL_INCH, _HEAD_INCH = 3.1, 0.4
_CLOSEST = 0.07
"""How far apart what was measured stands, in parts of an axis, for each to have a tick of its own."""
_PLAIN = (1e-3, 1e5)
"""Numbers that are shorter as they are than with an exponent."""
_FEW_DECADES = 2.0
"""Up to so many decades an axis has other ticks than powers of ten."""


def draw(title: str, panels: Sequence[Panel]) -> bytes:
    """Return a PNG of 1200 pixels' width with the panels, two in a row."""
    return canvas.png(make_figure(title, panels))


@canvas.in_house_style
def make_figure(title: str, panels: Sequence[Panel]) -> Figure:
    """Return what `draw` makes a PNG of."""
    figure, axes = canvas.panels(len(panels), 2, _PANEL_INCH, _HEAD_INCH, are_alike=False)
    for axis, panel in zip(axes, panels, strict=True):
        _panel(axis, panel)
    figure.suptitle(title, fontsize=10, color=canvas.INK)
    return figure


def _panel(axis: Axes, panel: Panel) -> None:
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    for number, one in enumerate(panel.lines):
        points = [point for point in one.points if _has_place(point, panel)]
        lost = len(one.points) - len(points)
        label = one.name + (f" ({lost} not shown)" if lost else "")
        colour, marker = (canvas.GREY, "x") if one.is_published else canvas.PALETTE[number % len(canvas.PALETTE)]
        # Beyond the palette's colours dashes tell lines apart.
        style = "" if one.is_published else "-" if number < len(canvas.PALETTE) else "--"
        _line(axis, points, label, colour, marker, style)
    canvas.label_panel(axis, panel.title, panel.x, panel.y)
    if panel.log_x:
        _log_ticks(axis.xaxis, [point.x for one in panel.lines for point in one.points if _has_place(point, panel)])
    if panel.log_y:
        _log_ticks(axis.yaxis, [])
    axis.legend(fontsize=6, frameon=False, ncols=1 + len(panel.lines) // 8)


def _log_ticks(axis: Axis, measured: Sequence[float]) -> None:
    """Put ticks where something was measured if that is far enough apart, else where numbers are round; none has a label between."""
    low, high = axis.get_view_interval()
    span = log10(high / low)
    places = sorted(set(measured))
    gaps = [log10(after / before) / span for before, after in pairwise(places)]
    if places and min(gaps, default=1.0) >= _CLOSEST:
        ticks = places
    elif span <= _FEW_DECADES:
        ticks = log_ticks(low, high)
    else:
        axis.set_minor_formatter(NullFormatter())
        return
    canvas.label_axis(axis, ticks, [_short(tick) for tick in ticks])


def _short(tick: float) -> str:
    """Return a number in few characters, e.g. `3e-4` for 0.0003: labels of neighbours must not meet."""
    return f"{tick:g}" if _PLAIN[0] <= tick < _PLAIN[1] else f"{tick:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _has_place(point: Point, panel: Panel) -> bool:
    finite = isfinite(point.x) and isfinite(point.y)
    return finite and not (panel.log_x and point.x <= 0) and not (panel.log_y and point.y <= 0)


def _line(axis: Axes, points: Sequence[Point], label: str, colour: str, marker: str, style: str) -> None:
    x, y = [point.x for point in points], [point.y for point in points]
    axis.plot(x, y, color=colour, marker=marker, markersize=4 if len(points) < 15 else 2, linestyle=style, linewidth=1.2, label=label)
    sure = [(point.x, point.low, point.high) for point in points if point.low is not None and point.high is not None]
    if sure:
        at, low, high = zip(*sure, strict=True)
        axis.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
