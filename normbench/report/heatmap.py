"""Speed-ups against the baseline as a map with the figures in its cells. Pure: results in, a figure out."""

from __future__ import annotations

from math import log2

import matplotlib
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..cases.shape import shape_text
from ..drawing.canvas import INK, label_outer, panels
from ..quantities.units import DASH, TIMES, number
from ..results.derived import ANOTHER_FORMULA, BASELINE, NOT_SIDE_BY_SIDE, Result
from .pages import Page
from .tables import NO_DIFFERENCE, ScopeResults

__all__ = ["speedup_figure"]

_COLOURS = "RdBu"
"""Red is slower, blue is faster; told apart with every common kind of colour blindness."""
_UNMEASURED = "#f4f4f4"
_FURTHEST_LOG2 = 3.0


def speedup_figure(page: Page) -> Figure | None:
    """Return the map of speed-ups, a panel per norm and pass; None when there is no speed-up to show."""
    providers = [name for name in page.providers if name != BASELINE]
    speedups = [
        one.speedup.estimate for grid in page.grids for one in grid.cells.values() if one.speedup and one.record.provider != BASELINE
    ]
    if not speedups:
        return None
    shapes = list(dict.fromkeys(shape for grid in sorted(page.grids, key=lambda grid: -len(grid.shapes)) for shape in grid.shapes))
    reach = min(_FURTHEST_LOG2, max(1.0, *(1.15 * abs(log2(value)) for value in speedups)))
    columns = 2 if len(providers) <= 4 else 1
    figure, axes = panels(len(page.grids), columns, (0.30 if len(shapes) <= 12 else 0.22) * len(shapes) + 0.55, 1.0)
    for axis, grid in zip(axes, page.grids, strict=True):
        _panel(axis, grid, shapes, providers, reach)
    label_outer(axes, columns)
    figure.suptitle(f"Times as fast as {BASELINE}, {page.title}", fontsize=11)
    ticks = list(range(-int(reach), int(reach) + 1))
    scale = ScalarMappable(Normalize(-reach, reach), matplotlib.colormaps[_COLOURS])
    # Fraction and pad are shares of the height: the bar must stay a bar below panels of any number of rows.
    height = figure.get_size_inches()[1]
    bar = figure.colorbar(scale, ax=axes, location="bottom", ticks=ticks, aspect=50, shrink=0.6, fraction=0.2 / height, pad=0.1 / height)
    bar.ax.set_xticklabels([f"{2.0**exponent:g}{TIMES}" for exponent in ticks], fontsize=8)
    bar.set_label(f"blue is faster, red is slower than {BASELINE}; {NO_DIFFERENCE}: no difference that can be told", fontsize=8)
    return figure


def _panel(axis: Axes, grid: ScopeResults, shapes: list[tuple[int, ...]], providers: list[str], reach: float) -> None:
    axis.set_title(f"{grid.scope.norm} {grid.scope.pass_.value}", fontsize=10, color=INK)
    axis.set_xlim(-0.5, len(providers) - 0.5)
    axis.set_ylim(len(shapes) - 0.5, -0.5)
    axis.set_xticks(range(len(providers)), providers, fontsize=9)
    axis.set_yticks(range(len(shapes)), [shape_text(shape) for shape in shapes], fontsize=8)
    axis.tick_params(length=0)
    for row, shape in enumerate(shapes):
        for column, name in enumerate(providers):
            _cell(axis, row, column, grid.cells.get((shape, name)), reach)


def _cell(axis: Axes, row: int, column: int, result: Result | None, reach: float) -> None:
    corner = (column - 0.5, row - 0.5)
    if result is not None and result.speedup is not None:
        red, green, blue, _ = matplotlib.colormaps[_COLOURS](0.5 + log2(result.speedup.estimate) / (2 * reach))
        colour = (red, green, blue)
        axis.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
        told = not result.speedup.contains(1.0)
        text = f"{number(result.speedup.estimate)}{TIMES}" + ("" if told else f" {NO_DIFFERENCE}")
        axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=_readable_on(colour))
        return
    word = DASH if result is None else _why(result)
    axis.add_patch(Rectangle(corner, 1, 1, facecolor=_UNMEASURED, edgecolor="#bbbbbb", hatch="////", linewidth=0))
    axis.text(
        column,
        row,
        word,
        ha="center",
        va="center",
        fontsize=7.5,
        color=INK,
        bbox={"facecolor": _UNMEASURED, "edgecolor": "none", "pad": 1.5},
    )


def _why(result: Result) -> str:
    """Return what a cell without a speed-up says, short enough for it."""
    if result.time is None:
        return "no time" if result.problem else result.record.status.value
    return result.speedup_missing if result.speedup_missing in (NOT_SIDE_BY_SIDE, ANOTHER_FORMULA) else f"no {BASELINE}"


def _readable_on(colour: tuple[float, float, float]) -> str:
    """Return black or white, whichever stands out (relative luminance after WCAG 2.1)."""
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if luminance > 0.179 else "white"
