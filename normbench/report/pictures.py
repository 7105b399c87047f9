"""Which figures a report has: their files, captions and bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.style

from ..results import Result
from .canvas import pages, png
from .figures import bandwidth_figure, time_figure
from .heatmap import speedup_figure
from .markdown import Picture
from .tables import by_scope

__all__ = ["draw_pictures"]

_KINDS = (
    ("speedup", speedup_figure, "Times as fast as aten", "no speed-up against aten was measured"),
    ("time", time_figure, "Time of one call against the size of x, with 95 % intervals", "nothing was timed"),
    ("bandwidth", bandwidth_figure, "Bandwidth against the size of x; dashed is the measured copy", "no bandwidth was measured"),
)


def draw_pictures(results: Sequence[Result]) -> dict[Picture, bytes]:
    """Return each picture with its PNG, or without a file and with the reason when there is nothing to draw."""
    drawn = {}
    for page in pages([grid for grid in by_scope(results) if grid.providers]):
        for kind, draw, caption, nothing in _KINDS:
            with matplotlib.style.context("default"):
                figure = draw(page)
            if figure is None:
                drawn[Picture(None, f"No figure of {kind} ({page.title}): {nothing}.")] = b""
            else:
                drawn[Picture(f"{kind}-{page.slug}.png", f"{caption} ({page.title}).")] = png(figure)
    return drawn
