"""What all figures share: colours, markers, panels, axes with readable ticks, and PNG bytes. No pyplot, no display, no state."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import ceil, floor, log2, log10

import matplotlib.style
import msgspec
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from ..report.tables import ScopeResults, describe_conditions, on_machine
from ..units import number

__all__ = [
    "COPY_COLOUR",
    "INK",
    "PAPER",
    "Page",
    "label_axis",
    "label_outer",
    "label_panel",
    "pages",
    "panels",
    "png",
    "size_ticks",
    "style_of",
    "ticks_within",
    "value_ticks",
]

PAPER, INK, COPY_COLOUR = "#ffffff", "#222222", "#555555"
_DPI, _WIDTH_INCH = 150, 8.0

# Okabe and Ito's palette, told apart with every common kind of colour blindness; markers tell apart in grey too.
_STYLES = {"eager": ("#E69F00", "o"), "aten": ("#0072B2", "s"), "compile": ("#009E73", "^"), "triton": ("#D55E00", "D")}
_OTHERS = (("#CC79A7", "v"), ("#56B4E9", "P"), ("#000000", "X"), ("#8C6D1F", "*"), ("#7A7A7A", "h"))


class Page(msgspec.Struct, frozen=True):
    """Hold the scopes that one figure shows, a panel each: they differ in norm and pass only."""

    title: str
    slug: str
    grids: tuple[ScopeResults, ...]

    @property
    def providers(self) -> list[str]:
        return list(dict.fromkeys(name for grid in self.grids for name in grid.providers))

    @property
    def is_timed(self) -> bool:
        return any(one.time for grid in self.grids for one in grid.cells.values())


def pages(grids: Sequence[ScopeResults]) -> list[Page]:
    """Return the pages, each with a title that names its scope and a slug that is unique and fit for a file's name."""
    grouped: dict[tuple[str, str], list[ScopeResults]] = {}
    for grid in grids:
        scope = grid.scope
        options = f" ({scope.options})" if scope.options else ""
        title = f"{scope.tier.value} tier, {scope.dtype.value}{options}; {describe_conditions(scope.conditions)}{on_machine(scope.machine)}"
        words = [scope.machine, scope.tier.value, scope.dtype.value, *scope.options.split(", "), scope.conditions.id.replace("/", "-")]
        slug = "-".join(word.replace(":", "") for word in words if word)
        grouped.setdefault((title, slug), []).append(grid)
    return [Page(title, slug, tuple(members)) for (title, slug), members in grouped.items()]


def style_of(name: str, providers: Sequence[str]) -> tuple[str, str]:
    """Return a provider's colour and marker: its own if built in, else by its place among the others."""
    others = [other for other in providers if other not in _STYLES]
    return _STYLES[name] if name in _STYLES else _OTHERS[others.index(name) % len(_OTHERS)]


def panels(count: int, columns: int, panel_inch: float, head_inch: float, *, are_alike: bool = True) -> tuple[Figure, list[Axes]]:
    """Return a figure of 1200 pixels' width with `count` panels that share their axes if they are alike."""
    columns = min(columns, count)
    rows = ceil(count / columns)
    figure = Figure(figsize=(_WIDTH_INCH, rows * panel_inch + head_inch), dpi=_DPI, layout="constrained", facecolor=PAPER)
    FigureCanvasAgg(figure)
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
    axis.grid(visible=True, color="#dddddd", linewidth=0.6)


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


def png(figure: Figure) -> bytes:
    """Return the figure as PNG."""
    with io.BytesIO() as stream, matplotlib.style.context("default"):
        figure.savefig(stream, format="png", facecolor=PAPER, transparent=False)
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
