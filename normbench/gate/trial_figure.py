"""A validation in one picture: how often each size of slow-down is called, and how often each rule calls the same code slower."""

from __future__ import annotations

from matplotlib.axes import Axes

from ..drawing.canvas import BLUE, INK, blank, in_house_style, png
from .trial_report import Findings
from .validation import Rate

__all__ = ["figure"]

_GATE, _PEER = BLUE, "#999999"


@in_house_style
def figure(found: Findings, place: str) -> bytes:
    """Return a PNG of 1200 pixels' width."""
    rules = [(f"{one.rule.value}, {one.manner}", one.red_runs) for one in found.peers if one.red_runs.total]
    drawing = blank(3.2 + 0.16 * max(0, len(rules) - 6))
    left, right = drawing.subplots(1, 2, width_ratios=(1.0, 1.15))
    _called(left, found)
    _red(right, [("normbench gate", found.alarms.runs), *rules])
    drawing.suptitle(f"{found.runs} whole gate runs on {place}", fontsize=8, color=INK)
    return png(drawing)


def _called(axes: Axes, found: Findings) -> None:
    points = [(0.0, found.alarms.runs)] if found.alarms.runs.total else []
    points += [(one.slowdown, one.found) for one in found.detections]
    for size, rate in points:
        assert rate.share is not None
        axes.errorbar(
            100 * size,
            100 * rate.share,
            yerr=[[100 * (rate.share - rate.low)], [100 * (rate.high - rate.share)]],
            fmt="o",
            color=_GATE,
            markersize=4,
            capsize=3,
            linewidth=1,
        )
    axes.axvline(100 * found.policy.margin, color=INK, linewidth=0.6, linestyle=":")
    axes.text(100 * found.policy.margin, 50, " margin", fontsize=7, color=INK)
    axes.set_xlabel("slow-down put in, measured apart (%)", fontsize=8)
    axes.set_ylabel("runs called slower (%)", fontsize=8)
    axes.set_ylim(-4, 104)
    axes.set_xlim(left=-0.5)
    axes.tick_params(labelsize=7)


def _red(axes: Axes, rules: list[tuple[str, Rate]]) -> None:
    shares = [100 * (rate.share or 0.0) for _, rate in rules]
    places = list(range(len(rules)))[::-1]
    axes.barh(places, shares, color=[_GATE, *[_PEER] * (len(rules) - 1)], height=0.7)
    for place, share, (_, rate) in zip(places, shares, rules, strict=True):
        axes.text(share + 1, place, f"{rate.hits} of {rate.total}", va="center", fontsize=6, color=INK)
    axes.set_yticks(places, [name for name, _ in rules], fontsize=6)
    axes.set_xlim(0, 118)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("runs of the same code called slower (%)", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
