"""Tokens per second of every arm: against the batch where there are several, as bars where there is one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..cases.case import Norm
from ..drawing.canvas import INK, grid, label_axis, panels, style_of
from ..drawing.reach import ARROWS, log_limits, log_ticks, mark_cut
from ..quantities.stats import Interval
from ..quantities.units import number
from ..results.derived import Result
from .companies import Company, Setting

__all__ = ["ArmStyle", "arm_style", "bar_figure", "batch_figure"]

_GREY = "#555555"
_NO_NORMS = "no norms"
_APART = 1.045
"""By what factor of the batch arms stand apart, so that those which cannot be told apart do not hide each other."""
_MAX_COLUMNS = 3

ArmStyle = dict[str, str]
"""Colour, marker, face and line of an arm, as matplotlib calls them."""


def arm_style(norm: Norm | None, provider: str, providers: Sequence[str]) -> ArmStyle:
    """Return how an arm is drawn: providers have colours and markers, LayerNorm is full and RMSNorm open and dashed; no norms is grey."""
    if norm is None:
        return {"color": _GREY, "marker": "", "markerfacecolor": "none", "linestyle": ":"}
    colour, marker = style_of(provider, providers)
    is_layer = norm is Norm.LAYER_NORM
    return {"color": colour, "marker": marker, "markerfacecolor": colour if is_layer else "white", "linestyle": "-" if is_layer else "--"}


_Arm = tuple[Norm | None, str]
_Cell = tuple[str, str, int]
"""Mode, network and tokens of a sequence: what a panel is of."""


def _rates(company: Company) -> dict[_Arm, tuple[Interval, bool]]:
    """Return the rate of each arm of a company, and whether the device throttled; the network without norms is the last one."""
    arms: list[tuple[_Arm, Result]] = [((norm, provider), one) for norm, provider, one in company.ordered]
    arms += [((None, _NO_NORMS), one) for one in company.controls[:1]]
    return {arm: (one.rate, one.record.status.value != "ok") for arm, one in arms if one.rate is not None}


def _name(arm: _Arm) -> str:
    return arm[1] if arm[0] is None else f"{arm[0].value}, {arm[1]}"


def batch_figure(companies: Sequence[Company]) -> Figure | None:
    """Return tokens per second against the batch, a panel per mode, network and length, a line per arm; None when nothing was measured.

    What is given should differ in mode, network and size only. Bars are 95 % intervals; arms of one batch stand a little apart.
    """
    drawn = [(company, _rates(company)) for company in companies]
    cells = list(dict.fromkeys(_cell(company) for company, rates in drawn if rates))
    if not cells:
        return None
    arms = sorted(dict.fromkeys(arm for _, rates in drawn for arm in rates), key=lambda arm: arm[0] is None)
    providers = list(dict.fromkeys(provider for norm, provider in arms if norm is not None))
    columns = min(_MAX_COLUMNS, len(dict.fromkeys(network for _, network, _ in cells)), len(cells))
    figure, axes = panels(len(cells), columns, 3.0, 1.3, are_alike=False)
    for axis, cell in zip(axes, cells, strict=True):
        here = [(company.size[0], rates) for company, rates in drawn if _cell(company) == cell]
        lines = {}
        for place, arm in enumerate(arms):
            offset = _APART ** (place - (len(arms) - 1) / 2)
            lines[arm] = [(batch * offset, rates[arm][0]) for batch, rates in here if arm in rates]
            _line(axis, lines[arm], arm_style(*arm, providers))
        _label(axis, cell, [batch for batch, _ in here], [rate for points in lines.values() for _, rate in points])
        for arm, points in lines.items():
            known = [(at, rate.low, rate.high) for at, rate in points if rate.low is not None and rate.high is not None]
            if mark_cut(axis, known, arm_style(*arm, providers)["color"]):
                axis.set_xlabel(f"batch ({ARROWS})", fontsize=9)
    figure.suptitle(f"Tokens per second against the batch, {_circumstances(companies[0].setting)}", fontsize=11)
    handles = [Line2D([], [], **arm_style(*arm, providers), label=_name(arm), markersize=5) for arm in arms]  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)), fontsize=8, frameon=False)
    return figure


def _cell(company: Company) -> _Cell:
    return company.setting.mode.value, company.network, company.size[1]


def _circumstances(setting: Setting) -> str:
    options = f" ({', '.join(setting.options)})" if setting.options else ""
    return f"{setting.preset}, {setting.dtype.value}{options}\n{setting.circumstances}"


def _line(axis: Axes, points: Sequence[tuple[float, Interval]], style: ArmStyle) -> None:
    if not points:
        return
    values = [rate.estimate for _, rate in points]
    spread = [_sides(rate) for _, rate in points]
    axis.errorbar(
        [at for at, _ in points],
        values,
        yerr=[[low for low, _ in spread], [high for _, high in spread]],
        capsize=2,
        linewidth=1.1,
        elinewidth=0.9,
        markersize=4.5,
        **style,  # type: ignore[arg-type]
    )


def _sides(rate: Interval) -> tuple[float, float]:
    if rate.low is None or rate.high is None:
        return 0.0, 0.0
    return rate.estimate - rate.low, rate.high - rate.estimate


def _label(axis: Axes, cell: _Cell, batches: Sequence[int], rates: Sequence[Interval]) -> None:
    mode, network, tokens = cell
    axis.set_title(f"{network}, {mode}, {tokens} tokens", fontsize=10, color=INK)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xlim(min(batches) / 1.4, max(batches) * 1.4)
    low, high = log_limits([rate.estimate for rate in rates], (end for rate in rates for end in (rate.low, rate.high) if end is not None))
    axis.set_ylim(low, high)
    label_axis(axis.xaxis, sorted(set(batches)), [str(batch) for batch in sorted(set(batches))])
    ticks = log_ticks(low, high)
    label_axis(axis.yaxis, ticks, [number(tick) for tick in ticks])
    grid(axis)
    axis.tick_params(labelsize=8)
    axis.set_xlabel("batch", fontsize=9)
    axis.set_ylabel("tokens/s", fontsize=9)


def bar_figure(companies: Sequence[Company]) -> Figure | None:
    """Return tokens per second as a bar per arm, a panel per mode, network and size; None when nothing was measured.

    What is given should differ in those only. Thin lines are 95 % intervals; a star stands at what was taken while the device throttled.
    """
    drawn = [(company, rates) for company in companies if (rates := _rates(company))]
    if not drawn:
        return None
    arms = sorted(dict.fromkeys(arm for _, rates in drawn for arm in rates), key=lambda arm: arm[0] is None)
    providers = list(dict.fromkeys(provider for norm, provider in arms if norm is not None))
    networks = len(dict.fromkeys(company.network for company, _ in drawn))
    columns = min(2, networks, len(drawn))
    figure, axes = panels(len(drawn), columns, 0.24 * len(arms) + 0.75, 0.6, are_alike=False)
    for place, (axis, (company, rates)) in enumerate(zip(axes, drawn, strict=True)):
        _bars(axis, rates, arms, providers)
        axis.set_title(f"{company.place}, {company.setting.mode.value}", fontsize=9, color=INK)
        axis.set_xlabel("tokens/s", fontsize=9)
        if place % columns:
            axis.tick_params(axis="y", labelleft=False)
    figure.suptitle(f"Tokens per second, {_circumstances(drawn[0][0].setting)}", fontsize=10)
    return figure


def _bars(axis: Axes, rates: dict[_Arm, tuple[Interval, bool]], arms: Sequence[_Arm], providers: Sequence[str]) -> None:
    most = max(rate.high or rate.estimate for rate, _ in rates.values())
    axis.set_yticks(range(len(arms)), [_name(arm) for arm in arms], fontsize=8)
    axis.set_ylim(len(arms) - 0.5, -0.5)
    # Room for the figures beside the bars.
    axis.set_xlim(0, most * (1 + 0.1 * sqrt(5)))
    axis.tick_params(labelsize=8)
    grid(axis, "x")
    axis.set_axisbelow(True)
    for row, arm in enumerate(arms):
        if arm not in rates:
            axis.text(0, row, " not measured", va="center", fontsize=7.5, color=INK)
            continue
        rate, is_throttled = rates[arm]
        style = arm_style(*arm, providers)
        is_full = style["markerfacecolor"] == style["color"]
        axis.barh(row, rate.estimate, height=0.62, color=style["color"] if is_full else "white", edgecolor=style["color"], linewidth=1.2)
        low, high = _sides(rate)
        axis.errorbar(rate.estimate, row, xerr=[[low], [high]], color=INK, capsize=2.5, linewidth=1, linestyle="")
        text = f" {number(rate.estimate)}" + (" *" if is_throttled else "")
        axis.text(rate.estimate + high, row, text, va="center", fontsize=7.5, color=INK)
