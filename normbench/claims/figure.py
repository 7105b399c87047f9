"""Published figures against those found here, with intervals, as a PNG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

import msgspec
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..drawing.canvas import BLUE, GREEN, GREY, INK, ORANGE, PINK, SKY, VERMILION, blank, grid, in_house_style, png
from .evaluators import Evaluation
from .verdict import Value, Verdict

__all__ = ["STYLES", "Comparison", "comparisons", "draw"]

STYLES = {
    Verdict.EXACT: (BLUE, "s"),
    Verdict.REPRODUCED: (GREEN, "o"),
    Verdict.WRONG: (VERMILION, "^"),
    Verdict.OPPOSITE: (SKY, "<"),
    Verdict.NOT_REPRODUCED: (ORANGE, "D"),
    Verdict.BOUNDED_OUT: (PINK, "v"),
    Verdict.OTHER_SCOPE: (GREY, "P"),
}
_FARTHEST = 4.0
"""Decades between a published figure and one found here beyond which the mark stands at the edge."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Put one published number beside the one found here."""

    label: str
    published: float
    value: Value
    verdict: Verdict
    is_saving: bool


def comparisons(evaluations: Sequence[Evaluation]) -> list[Comparison]:
    """Return one comparison per claim: its first published number that was found here too, or the ends of a published range."""
    found = []
    for one in evaluations:
        if one.measured is None or one.ruling.verdict is None:
            continue
        numbers = {name: value for name, value in one.claim.published.items() if isinstance(value, float | int)}
        is_saving = one.claim.unit == "%" and "saved_percent" in one.measured.values
        if is_saving and {"least", "most"} <= numbers.keys():
            numbers["saved_percent"] = (numbers["least"] + numbers["most"]) / 2
        names = [name for name in numbers if name in one.measured.values and not isinstance(one.measured.values[name].estimate, str)]
        if is_saving and "saved_percent" in names:
            names = ["saved_percent"]
        if names:
            name = names[-1]
            label = one.claim.id
            found.append(
                Comparison(
                    label=label,
                    published=float(numbers[name]),
                    value=one.measured.values[name],
                    verdict=one.ruling.verdict,
                    is_saving=is_saving,
                )
            )
    return found


@in_house_style
def draw(evaluations: Sequence[Evaluation]) -> bytes | None:
    """Return a PNG of 1200 pixels' width, or None where no number was found here: savings in percent, and all else as found / published."""
    found = comparisons(evaluations)
    savings = [one for one in found if one.is_saving]
    others = [one for one in found if not one.is_saving and one.published > 0 and float(one.value.estimate) > 0]
    parts = [(rows, drawing) for rows, drawing in ((savings, _savings), (others, _ratios)) if rows]
    if not parts:
        return None
    heights = [0.17 * len(rows) + 0.5 for rows, _ in parts]
    figure = blank(sum(heights) + 1.0)
    axes = figure.subplots(len(parts), 1, height_ratios=heights, squeeze=False).ravel().tolist()
    for axis, (rows, drawing) in zip(axes, parts, strict=True):
        drawing(axis, rows)
        axis.set_yticks(range(len(rows)), [one.label for one in rows], fontsize=6)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.tick_params(axis="x", labelsize=7)
        grid(axis, "x")
    used = {one.verdict for one in found}
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="", markersize=4, label=verdict.value)
        for verdict, (colour, marker) in STYLES.items()
        if verdict in used
    ]
    handles.append(Line2D([], [], color=INK, marker="x", linestyle="", markersize=5, label="published"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7, frameon=False)
    figure.suptitle("Published against found here, with 95 % intervals where there are any", fontsize=10, color=INK)
    return png(figure)


def _savings(axis: Axes, rows: Sequence[Comparison]) -> None:
    for place, one in enumerate(rows):
        colour, marker = STYLES[one.verdict]
        low, high = one.value.span or (0.0, 0.0)
        axis.plot([low, high], [place, place], color=colour, linewidth=1.4)
        axis.plot([float(one.value.estimate)], [place], color=colour, marker=marker, markersize=4)
        axis.plot([one.published], [place], color=INK, marker="x", markersize=5, linestyle="")
    axis.axvline(0, color=INK, linewidth=0.6)
    axis.set_xlabel("time, parameters or variance saved by RMSNorm (%)", fontsize=8)


def _ratios(axis: Axes, rows: Sequence[Comparison]) -> None:
    for place, one in enumerate(rows):
        colour, marker = STYLES[one.verdict]
        low, high = one.value.span or (1.0, 1.0)
        ends = [_decades(end, one.published) for end in (low, float(one.value.estimate), high)]
        axis.plot([ends[0], ends[2]], [place, place], color=colour, linewidth=1.4)
        axis.plot([ends[1]], [place], color=colour, marker=marker, markersize=4)
        axis.plot([0], [place], color=INK, marker="x", markersize=5, linestyle="")
    ticks = sorted({round(tick) for tick in (-_FARTHEST, -2, -1, 0, 1, 2, _FARTHEST)})
    axis.set_xticks(ticks, [f"{10.0**tick:g}" for tick in ticks])
    axis.set_xlabel("found here / published", fontsize=8)


def _decades(value: float, published: float) -> float:
    ratio = value / published
    return max(-_FARTHEST, min(_FARTHEST, log10(ratio))) if ratio > 0 else -_FARTHEST
