"""Panels of lines as a PNG, in the style of the reports. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from matplotlib.axes import Axes

from ..report import canvas
from .findings import Panel, Point

__all__ = ["draw"]

# Okabe and Ito's palette, told apart with every common kind of colour blindness; markers tell apart in grey too.
_STYLES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#E69F00", "D"),
    ("#CC79A7", "v"),
    ("#56B4E9", "P"),
    ("#000000", "X"),
    ("#8C6D1F", "*"),
)
_PUBLISHED = "#777777"
_PANEL_INCH, _HEAD_INCH = 3.1, 0.4


def draw(title: str, panels: Sequence[Panel]) -> bytes:
    """Return a PNG of 1200 pixels' width with the panels, two in a row."""
    figure, axes = canvas.panels(len(panels), 2, _PANEL_INCH, _HEAD_INCH, are_alike=False)
    for axis, panel in zip(axes, panels, strict=True):
        _panel(axis, panel)
    figure.suptitle(title, fontsize=10, color=canvas.INK)
    return canvas.png(figure)


def _panel(axis: Axes, panel: Panel) -> None:
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    for number, one in enumerate(panel.lines):
        points = [point for point in one.points if _has_place(point, panel)]
        lost = len(one.points) - len(points)
        label = one.name + (f" ({lost} not shown)" if lost else "")
        colour, marker = (_PUBLISHED, "x") if one.is_published else _STYLES[number % len(_STYLES)]
        # Beyond the palette's colours dashes tell lines apart.
        style = "" if one.is_published else "-" if number < len(_STYLES) else "--"
        _line(axis, points, label, colour, marker, style)
    canvas.label_panel(axis, panel.title, panel.x, panel.y)
    axis.legend(fontsize=6, frameon=False, ncols=1 + len(panel.lines) // 8)


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
