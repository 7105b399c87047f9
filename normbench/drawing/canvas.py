"""What all figures share: colours, markers, panels, axes with readable ticks, and PNG bytes. No pyplot, no display, no state."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import wraps
from math import ceil, floor, log2, log10
from typing import Literal, ParamSpec, TypeVar

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from ..quantities.units import number

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PALETTE",
    "PINK",
    "SKY",
    "VERMILION",
    "blank",
    "grid",
    "in_house_style",
    "label_axis",
    "label_outer",
    "label_panel",
    "panels",
    "png",
    "size_ticks",
    "style_of",
    "ticks_within",
    "value_ticks",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")

INK, GREY = "#222222", "#777777"
_PAPER, _GRID = "#ffffff", "#dddddd"
_DPI, _WIDTH_INCH = 150, 8.0

# Okabe and Ito's palette, told apart with every common kind of colour blindness.
BLUE, VERMILION, GREEN, ORANGE, PINK, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
_BLACK, _BROWN = "#000000", "#8C6D1F"
PALETTE = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (ORANGE, "D"), (PINK, "v"), (SKY, "P"), (_BLACK, "X"), (_BROWN, "*"))
"""Colours with markers, which tell apart in grey too."""

_STYLES = {"eager": (ORANGE, "o"), "aten": (BLUE, "s"), "compile": (GREEN, "^"), "triton": (VERMILION, "D")}
_OTHERS = ((PINK, "v"), (SKY, "P"), (_BLACK, "X"), (_BROWN, "*"), (GREY, "h"))


def in_house_style(draw: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a function draw alike whatever the user's own matplotlibrc says."""

    @wraps(draw)
    def drawn(*args: _P.args, **options: _P.kwargs) -> _R:
        with matplotlib.style.context("default"):
            return draw(*args, **options)

    return drawn


def blank(height_inch: float) -> Figure:
    """Return a figure of 1200 pixels' width."""
    figure = Figure(figsize=(_WIDTH_INCH, height_inch), dpi=_DPI, layout="constrained", facecolor=_PAPER)
    FigureCanvasAgg(figure)
    return figure


def grid(axis: Axes, along: Literal["both", "x", "y"] = "both") -> None:
    """Draw the lines behind what is shown."""
    axis.grid(visible=True, axis=along, color=_GRID, linewidth=0.6)


def style_of(name: str, providers: Sequence[str]) -> tuple[str, str]:
    """Return a provider's colour and marker: its own if built in, else by its place among the others."""
    others = [other for other in providers if other not in _STYLES]
    return _STYLES[name] if name in _STYLES else _OTHERS[others.index(name) % len(_OTHERS)]


def panels(count: int, columns: int, panel_inch: float, head_inch: float, *, are_alike: bool = True) -> tuple[Figure, list[Axes]]:
    """Return a figure of 1200 pixels' width with `count` panels that share their axes if they are alike."""
    columns = min(columns, count)
    rows = ceil(count / columns)
    figure = blank(rows * panel_inch + head_inch)
    axes = figure.subplots(rows, columns, sharex=are_alike, sharey=are_alike, squeeze=False).ravel().tolist()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def label_panel(axis: Axes, title: str, x: str, y: str) -> None:
    """Put a title, labels, ticks and a grid in the size of a panel beside others on an axis."""
    axis.set_title(title, fontsize=8, color=INK)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
    axis.tick_params(labelsize=7)
    grid(axis)


def label_outer(axes: Sequence[Axes], columns: int) -> None:
    """Keep the labels of the leftmost and of the lowest panels only; the lowest of a column is not always in the last row."""
    for position, axis in enumerate(axes):
        if position % columns:
            axis.set_ylabel("")
            axis.tick_params(axis="y", labelleft=False)
        lowest = position + columns >= len(axes)
        if not lowest:
            axis.set_xlabel("")
        axis.tick_params(axis="x", labelbottom=lowest)


@in_house_style
def png(figure: Figure) -> bytes:
    """Return the figure as PNG."""
    with io.BytesIO() as stream:
        figure.savefig(stream, format="png", facecolor=_PAPER, transparent=False)
        return stream.getvalue()


def size_ticks(sizes: Sequence[float], most: int = 6) -> list[float]:
    """Return powers of two that span the sizes, evenly thinned to at most `most`."""
    low, high = floor(log2(min(sizes))), ceil(log2(max(sizes)))
    step = max(1, ceil((high - low + 1) / most))
    return [2.0**exponent for exponent in range(low, high + 1, step)]


def value_ticks(values: Sequence[float], most: int = 7) -> list[float]:
    """Return 1, 2, 5 times powers of ten that span the values; only powers of ten when those would be more than `most`."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    span = (min(values) / 1.6, max(values) * 1.6)
    fine = [digit * 10.0**exponent for exponent in range(low, high + 1) for digit in (1, 2, 5)]
    shown = [tick for tick in fine if span[0] <= tick <= span[1]]
    if len(shown) > most:
        step = max(1, ceil((high - low + 1) / most))
        return [10.0**exponent for exponent in range(low, high + 1, step)]
    return shown or [_number_near(values)]


def ticks_within(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Return the ticks between the ends of an axis; other round numbers if less than two are."""
    shown = [tick for tick in ticks if low <= tick <= high]
    if len(shown) > 1:
        return shown
    return [float(tick) for tick in MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high and tick > 0]


def _number_near(values: Sequence[float]) -> float:
    """Return a round number near the values, for an axis that spans too little to have any."""
    return float(number(min(values), 2))


def label_axis(axis: Axis, ticks: Sequence[float], texts: Sequence[str]) -> None:
    """Put these ticks and texts on an axis, and none between."""
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter(list(texts)))
    axis.set_minor_locator(NullLocator())
