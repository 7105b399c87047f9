"""What networks were predicted to save beside what they did, and what norms of no cost would save. Pure: attributions in, a figure out."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..cases.case import Pass
from ..drawing.canvas import INK, grid, label_outer, panels, style_of
from ..drawing.reach import ARROWS, limits, mark_cut
from ..quantities.estimate import Estimate
from ..results.attribution import Attribution
from .tables import describe_conditions

__all__ = ["savings_figure"]

_GREY = "#888888"
_PREDICTED, _BOUND = "predicted from the norms alone", "bound: norms of no cost"
_ROW_INCH, _HEAD_INCH = 0.2, 0.55
_APART = 0.17
"""Half the distance, in rows, between what was predicted of a network and what was observed."""
_LEAST_PERCENT = 5.0
"""How far an interval may reach beyond what was measured, where that is all the same."""


def savings_figure(found: Sequence[Attribution]) -> Figure | None:
    """Return predicted and observed savings and their bound in percent, a row per network; None when there are none.

    What is given should be changes of one kind, of the norm or of the provider, with one panel for each provider after the change (and,
    where that changes, each norm) and each pass. Bars are 95 % intervals; one that leaves the panel ends in an arrow.
    """
    known = [one for one in found if one.predicted is not None and one.observed is not None]
    if not known:
        return None
    rows = list(dict.fromkeys(_what(one) for one in known))
    passes = sorted({one.case.pass_ for one in known}, key=list(Pass).index)
    networks = list(dict.fromkeys(one.case.network for one in known))
    figure, axes = panels(len(rows) * len(passes), len(passes), _ROW_INCH * len(networks) + _HEAD_INCH, 1.0)
    values = [100 * figure_.value for one in known for figure_ in (one.predicted, one.observed, one.bound) if figure_ is not None]
    ends = (end for one in known for figure_ in (one.predicted, one.observed) for end in _ends(figure_))
    providers = list(dict.fromkeys(one.after.provider for one in known))
    axes[0].set_xlim(*limits([0.0, *values], ends, least=_LEAST_PERCENT))
    axes[0].set_ylim(len(networks) - 0.5, -0.5)
    cut = 0
    for place, axis in enumerate(axes):
        what, pass_ = rows[place // len(passes)], passes[place % len(passes)]
        here = [one for one in known if _what(one) == what and one.case.pass_ is pass_]
        cut += _panel(axis, here, networks, providers)
        axis.set_title(f"{what}, {pass_.value}", fontsize=9, color=INK)
    for axis in axes:
        axis.set_xlabel("saved of a pass, %" + (f" ({ARROWS})" if cut else ""), fontsize=9)
    label_outer(axes, len(passes))
    first = known[0]
    figure.suptitle(f"Predicted and observed savings, model tier, {first.case.preset}, {_circumstances(first)}", fontsize=10)
    # The mark of what was observed is the provider's, and each panel has those of its own.
    marks = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    names = sorted(marks, key=[_BOUND, _PREDICTED, *map(_observed, providers)].index)
    figure.legend([marks[name] for name in names], names, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _what(one: Attribution) -> str:
    if one.is_of_norm:
        return f"LayerNorm → RMSNorm, {one.after.provider}"
    return f"{one.before.provider} → {one.after.provider}, {one.after.case.norm.value}"


def _circumstances(one: Attribution) -> str:
    return f"{one.case.dtype.value}; {describe_conditions(one.before.conditions)}"


def _observed(provider: str) -> str:
    return f"observed, {provider}"


def _ends(estimate: Estimate | None) -> tuple[float, ...]:
    """Return the ends of an interval in percent, none where there is no interval."""
    if estimate is None or estimate.half is None:
        return ()
    return 100 * (estimate.value - estimate.half), 100 * (estimate.value + estimate.half)


def _panel(axis: Axes, found: Sequence[Attribution], networks: Sequence[str], providers: Sequence[str]) -> int:
    """Draw a panel, and return how many ends of intervals leave it."""
    grid(axis, "x")
    axis.axvline(0, color=_GREY, linewidth=0.8)
    axis.set_yticks(range(len(networks)), networks, fontsize=8)
    axis.tick_params(labelsize=8)
    cut = 0
    for one in found:
        row = networks.index(one.case.network)
        assert one.predicted is not None
        assert one.observed is not None
        colour, marker = style_of(one.after.provider, providers)
        cut += _mark(axis, one.predicted, row - _APART, _GREY, "o", "none", _PREDICTED)
        cut += _mark(axis, one.observed, row + _APART, colour, marker, colour, _observed(one.after.provider))
        if one.bound is not None:
            axis.plot([100 * one.bound.value], [row], color=INK, marker="|", markersize=9, linestyle="", label=_BOUND)
    return cut


def _mark(axis: Axes, estimate: Estimate, row: float, colour: str, marker: str, face: str, label: str) -> int:
    axis.errorbar(
        100 * estimate.value,
        row,
        xerr=None if estimate.half is None else 100 * estimate.half,
        color=colour,
        marker=marker,
        markersize=4,
        markerfacecolor=face,
        linewidth=0.9,
        linestyle="",
        label=label,
    )
    ends = _ends(estimate)
    return mark_cut(axis, [(row, ends[0], ends[1])], colour, along="x") if ends else 0
