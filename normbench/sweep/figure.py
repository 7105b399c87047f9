"""Tokens per second against the batch, a panel for each company of arms, as a PNG. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from ..cases.case import Norm
from ..drawing.canvas import INK, in_house_style, label_axis, label_panel, panels, png, size_ticks, style_of
from ..drawing.reach import ARROWS, limits, mark_cut
from ..quantities.stats import Interval
from .entry import Verdict
from .summary import ArmSummary, CompanySummary

__all__ = ["draw"]

_LINE_STYLES = {Norm.LAYER_NORM: "-"}
"""Colour and marker tell providers apart, dashes the norm."""
_MOST_TICKS = 9
_PANEL_INCH, _HEAD_INCH = 3.1, 0.4


@in_house_style
def draw(title: str, companies: Sequence[CompanySummary]) -> bytes | None:
    """Return a PNG of 1200 pixels' width, two panels in a row, or None where nothing was timed.

    A cross marks the smallest batch at which an arm ran out of memory, at the height of its largest that fits.
    """
    shown = [company for company in companies if any(one.largest for one in company.arms)]
    if not shown:
        return None
    figure, axes = panels(len(shown), 2, _PANEL_INCH, _HEAD_INCH, are_alike=False)
    providers = list(dict.fromkeys(one.arm.provider for company in shown for one in company.arms))
    for axis, company in zip(axes, shown, strict=True):
        _panel(axis, company, providers)
    figure.suptitle(title, fontsize=10, color=INK)
    return png(figure)


def _panel(axis: Axes, company: CompanySummary, providers: Sequence[str]) -> None:
    axis.set_xscale("log")
    for one in company.arms:
        _arm(axis, one, providers)
    batches = [point.batch for one in company.arms for point in one.points]
    ticks = size_ticks(batches, _MOST_TICKS)
    label_axis(axis.xaxis, ticks, [f"{tick:.0f}" for tick in ticks])
    rates = [rate for one in company.arms for _, rate in _fitting(one)]
    # The interval of three processes can be wider than all that was measured.
    highs = (rate.high for rate in rates if rate.high is not None)
    axis.set_ylim(0, limits([0.0, *(rate.estimate for rate in rates)], highs, least=1.0)[1])
    cut = sum(mark_cut(axis, _intervals(one), style_of(one.arm.provider, providers)[0]) for one in company.arms)
    label_panel(axis, company.title, f"batch (cross: out of memory{f'; {ARROWS}' if cut else ''})", "tokens/s")
    axis.legend(fontsize=6, frameon=False, handlelength=4)


def _fitting(one: ArmSummary) -> list[tuple[int, Interval]]:
    """Return the batches of an arm that fit, each with its tokens per second."""
    return [(point.batch, point.tokens_per_s) for point in one.points if point.verdict is Verdict.FITS]


def _intervals(one: ArmSummary) -> list[tuple[int, float, float]]:
    return [(batch, rate.low, rate.high) for batch, rate in _fitting(one) if rate.low is not None and rate.high is not None]


def _arm(axis: Axes, one: ArmSummary, providers: Sequence[str]) -> None:
    fitting = _fitting(one)
    if not fitting:
        return
    colour, marker = style_of(one.arm.provider, providers)
    style = _LINE_STYLES.get(one.arm.case.norm, "--")
    batches, rates = [batch for batch, _ in fitting], [rate.estimate for _, rate in fitting]
    axis.plot(batches, rates, color=colour, marker=marker, markersize=4, linestyle=style, linewidth=1.2, label=one.arm.name)
    if sure := _intervals(one):
        at, low, high = zip(*sure, strict=True)
        axis.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    if (unfit := one.smallest_failed) is not None:
        axis.plot([batches[-1], unfit.batch], [rates[-1]] * 2, color=colour, linestyle=":", linewidth=0.8)
        axis.plot([unfit.batch], [rates[-1]], color=colour, marker="x", markersize=6, linestyle="")
