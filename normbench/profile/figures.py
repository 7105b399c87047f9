"""A profile as a picture: the shares of kinds of modules and of operators, forward and backward in one bar each."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from ..drawing.canvas import BLUE, INK, ORANGE, blank, in_house_style, png
from ..quantities.units import percent
from .parts import Part, by_kind, by_operator
from .summary import Profile

__all__ = ["share_picture"]

BARS = 10
"""Operators shown; those after them take a few per cent together."""

_FORWARD, _BACKWARD = BLUE, ORANGE


@in_house_style
def share_picture(profile: Profile, title: str) -> bytes:
    """Return a PNG of the shares of a step that kinds of modules take, and of those that operators take, in % of the profile's basis."""
    figure = blank(6.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[7, BARS]).tolist()
    _bars(above, by_kind(profile), profile)
    above.set_title("by kind of module", loc="left", fontsize=9, color=INK)
    _bars(below, by_operator(profile)[:BARS], profile)
    below.set_title(f"by operator, the {BARS} longest, itself only", loc="left", fontsize=9, color=INK)
    of = "the host's time" if profile.device_s is None else "the kernels' time"
    below.set_xlabel(f"share of {of}, %")
    figure.suptitle(title, fontsize=10, color=INK)
    if profile.trains:
        above.legend(loc="lower right", fontsize=8, frameon=False)
    return png(figure)


def _bars(axes: Axes, parts: Sequence[Part], profile: Profile) -> None:
    names = [part.name for part in parts]
    places = list(range(len(parts)))
    forward = [100 * _share(part, profile, backward=False) for part in parts]
    backward = [100 * _share(part, profile, backward=True) for part in parts]
    axes.barh(places, forward, color=_FORWARD, label="forward")
    axes.barh(places, backward, left=forward, color=_BACKWARD, label="backward")
    for place, part in zip(places, parts, strict=True):
        axes.annotate(
            percent(part.share), (100 * part.share, place), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK
        )
    axes.set_yticks(places, names, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)


def _share(part: Part, profile: Profile, *, backward: bool) -> float:
    if not profile.basis_s:
        return 0.0
    host_s, device_s = (part.backward_s, part.backward_device_s) if backward else (part.forward_s, part.forward_device_s)
    return (host_s if profile.device_s is None else device_s) / profile.basis_s
