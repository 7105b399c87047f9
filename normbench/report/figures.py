"""Time and bandwidth against size, one panel per norm and pass. Pure: results in, figures out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, exp, log
from statistics import fmean
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..drawing.canvas import INK, label_axis, label_outer, panels, size_ticks, style_of
from ..drawing.canvas import grid as draw_grid
from ..drawing.reach import ARROWS, log_limits, log_ticks, mark_cut
from ..quantities.units import bytes_text, duration
from ..records.record import COPY
from ..results.derived import Result
from .pages import Page
from .tables import ScopeResults

__all__ = ["bandwidth_figure", "time_figure"]

_COPY_COLOUR = "#555555"
_NOTE_CHARACTERS = 60
"""Characters of a note that have room in a line above a panel."""

_Point = tuple[float, float, float | None, float | None]
"""Size in bytes, value, and the bounds of its interval if there is one."""


def time_figure(page: Page) -> Figure | None:
    """Return time per call against the size of x, with interval bands; None when nothing was timed."""

    def point(result: Result) -> _Point | None:
        return (_size(result), result.time.estimate, result.time.low, result.time.high) if result.time else None

    return _line_figure(page, point, "Time of one call", "time", _tick_duration, roofline=False)


def bandwidth_figure(page: Page) -> Figure | None:
    """Return achieved GB/s against the size of x, with the copy's as roofline; None when nothing has a bandwidth."""

    def point(result: Result) -> _Point | None:
        if result.gbps is None or result.time is None or result.bytes_moved is None:
            return None
        low, high = (result.bytes_moved / bound / 1e9 if bound else None for bound in (result.time.high, result.time.low))
        return _size(result), result.gbps, low, high

    return _line_figure(page, point, "Bandwidth", "GB/s", lambda value: f"{value:g}", roofline=True)


def _size(result: Result) -> float:
    return float(result.record.case.numel * result.record.case.dtype.itemsize)


def _line_figure(
    page: Page, point: Callable[[Result], _Point | None], title: str, unit: str, text: Callable[[float], str], *, roofline: bool
) -> Figure | None:
    lines = [_lines(grid, point, roofline=roofline) for grid in page.grids]
    shown = [point for drawn in lines for points in drawn.values() for point in points]
    values = [value for _, value, _, _ in shown]
    # An empty tensor has no place on a logarithmic axis; tables show it.
    sizes = [size for size, _, _, _ in shown]
    if not values:
        return None
    single = len(page.grids) == 1
    figure, axes = panels(len(page.grids), 2, 4.0 if single else 2.7, 0.9)
    for axis, grid, drawn in zip(axes, page.grids, lines, strict=True):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        draw_grid(axis)
        for name, points in drawn.items():
            _draw(axis, name, points, page.providers)
        _title(axis, grid, drawn)
    axes[0].set_xlim(min(sizes) / 1.5, max(sizes) * 1.5)
    low, high = log_limits(values, (end for _, _, *ends in shown for end in ends if end is not None))
    axes[0].set_ylim(low, high)
    ticks = log_ticks(low, high)
    label_axis(axes[0].yaxis, ticks, [text(tick) for tick in ticks])
    ticks = size_ticks(sizes)
    label_axis(axes[0].xaxis, ticks, [_tick_bytes(tick) for tick in ticks])
    cut = sum(_mark_cut(axis, drawn, page.providers) for axis, drawn in zip(axes, lines, strict=True))
    for axis in axes:
        axis.tick_params(labelsize=8)
        axis.set_xlabel("size of x" + (f" ({ARROWS})" if cut else ""), fontsize=9)
        axis.set_ylabel(unit, fontsize=9)
    label_outer(axes, columns=2)
    figure.suptitle(f"{title}, {page.title}", fontsize=11)
    handles = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    order = [name for name in (*page.providers, _COPY_LABEL) if name in handles]
    columns = len(order) if len(order) <= 6 else ceil(len(order) / 2)
    figure.legend([handles[name] for name in order], order, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
    return figure


_COPY_LABEL = "copy (measured roofline)"


def _lines(grid: ScopeResults, point: Callable[[Result], _Point | None], *, roofline: bool) -> dict[str, list[_Point]]:
    """Return the drawable points of each line, by size; what has no finite positive value is left out."""
    lines: dict[str, list[_Point]] = {}
    for shape in grid.shapes:
        for result in grid.row(shape):
            if (found := point(result)) and found[0] > 0 and found[1] > 0:
                lines.setdefault(result.record.provider, []).append(found)
        if roofline and (copy := grid.controls.get((shape, COPY))) and (found := point(copy)) and found[0] > 0 and found[1] > 0:
            # The roofline is drawn without an interval.
            lines.setdefault(_COPY_LABEL, []).append((*found[:2], None, None))
    return lines


def _draw(axis: Axes, name: str, points: Sequence[_Point], providers: Sequence[str]) -> None:
    """Draw every point, and a line with a band through the mean of those of one size."""
    sizes, values, lows, highs = [], [], [], []
    for size in dict.fromkeys(point[0] for point in points):
        same = [point for point in points if point[0] == size]
        sizes.append(size)
        values.append(_mean([point[1] for point in same]))
        lows.append(_mean([point[1] if point[2] is None else point[2] for point in same]))
        highs.append(_mean([point[1] if point[3] is None else point[3] for point in same]))
    if name == _COPY_LABEL:
        if len(sizes) == 1:
            axis.axhline(values[0], color=_COPY_COLOUR, linestyle="--", linewidth=1.3, label=name, zorder=2)
        else:
            axis.plot(sizes, values, color=_COPY_COLOUR, linestyle="--", linewidth=1.3, label=name, zorder=2)
        return
    colour, marker = style_of(name, providers)
    axis.fill_between(sizes, lows, highs, color=colour, alpha=0.22, linewidth=0)
    axis.plot(sizes, values, color=colour, marker=marker, markersize=5, linewidth=1.4, label=name, zorder=3)
    axis.plot(
        [point[0] for point in points], [point[1] for point in points], color=colour, marker=marker, markersize=5, linestyle="", zorder=3
    )
    spread = [(size, value, value - low, high - value) for size, value, low, high in points if low is not None and high is not None]
    if spread:
        at, value, below, above = (list(column) for column in zip(*spread, strict=True))
        axis.errorbar(at, value, yerr=[below, above], color=colour, capsize=2.5, linewidth=1, linestyle="")


def _mean(values: Sequence[float]) -> float:
    return exp(fmean(log(value) for value in values))


def _mark_cut(axis: Axes, drawn: dict[str, list[_Point]], providers: Sequence[str]) -> int:
    """Draw arrows where intervals leave a panel, and return how many."""
    known = {
        name: [(size, low, high) for size, _, low, high in points if low is not None and high is not None]
        for name, points in drawn.items()
        if name != _COPY_LABEL
    }
    return sum(mark_cut(axis, intervals, style_of(name, providers)[0]) for name, intervals in known.items())


def _title(axis: Axes, grid: ScopeResults, drawn: dict[str, list[_Point]]) -> None:
    """Put the norm and pass above a panel, and between the two what is not shown: in the panel it would lie on lines."""
    words = []
    for name in grid.providers:
        if name not in drawn:
            states = dict.fromkeys(one.record.status.value for one in grid.cells.values() if one.record.provider == name and not one.time)
            words.append(f"{name} ({'/'.join(states) or 'empty'})")
    note = fill("not shown: " + ", ".join(words), _NOTE_CHARACTERS) if words else ""
    lines = len(note.splitlines())
    axis.set_title(f"{grid.scope.norm} {grid.scope.pass_.value}", fontsize=10, color=INK, pad=6 + 10 * lines)
    if words:
        axis.annotate(
            note, (0.5, 1), xycoords="axes fraction", xytext=(0, 3), textcoords="offset points", fontsize=7.5, ha="center", color=INK
        )


def _tick_bytes(size: float) -> str:
    return _short(bytes_text(size))


def _tick_duration(time_s: float) -> str:
    return _short(duration(time_s))


def _short(quantity: str) -> str:
    """Return e.g. `1 MiB` for `1.00 MiB`."""
    count, unit = quantity.split()
    return f"{float(count):g} {unit}"
