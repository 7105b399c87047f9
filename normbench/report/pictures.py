"""Which figures a report has: their files, captions and bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..drawing.canvas import in_house_style, png
from ..results.attribution import Attribution, norms_of_networks
from ..results.derived import Result
from .companies import by_company
from .figures import bandwidth_figure, time_figure
from .heatmap import speedup_figure
from .markdown import Picture
from .pages import pages
from .rate_pictures import draw_rates
from .savings import savings_figure
from .tables import by_scope

__all__ = ["draw_pictures"]

_KINDS = (
    ("speedup", speedup_figure, "Times as fast as aten", "no speed-up against aten was measured"),
    ("time", time_figure, "Time of one call against the size of x, with 95 % intervals", "nothing was timed"),
    ("bandwidth", bandwidth_figure, "Bandwidth against the size of x; dashed is the measured copy", "no bandwidth was measured"),
)


@in_house_style
def draw_pictures(results: Sequence[Result], found: Sequence[Attribution] = ()) -> dict[Picture, bytes]:
    """Return each picture with its PNG, or without a file and with the reason when there is nothing to draw."""
    drawn = draw_rates(by_company(results)) | _savings(found)
    beside = norms_of_networks(results)
    for page in pages([grid for grid in by_scope(one for one in results if one.record.case_id not in beside) if grid.providers]):
        for kind, draw, caption, nothing in _KINDS:
            figure = draw(page)
            if figure is None:
                drawn[Picture(None, f"No figure of {kind} ({page.title}): {nothing}.")] = b""
            else:
                drawn[Picture(f"{kind}-{page.slug}.png", f"{caption} ({page.title}).")] = png(figure)
    return drawn


def _savings(found: Sequence[Attribution]) -> dict[Picture, bytes]:
    """Return the pictures of what networks save, one for changes of the norm and one for changes of the provider, in each circumstance."""
    grouped: dict[tuple[str, ...], list[Attribution]] = {}
    for one in found:
        kind = "norm" if one.is_of_norm else "provider"
        words = (kind, one.case.preset, one.case.dtype.value, one.before.conditions.id, one.before.machine)
        grouped.setdefault(words, []).append(one)
    drawn = {}
    for (kind, *circumstances), members in grouped.items():
        circumstances = [word for word in circumstances if word]
        title = ", ".join(["model tier", *circumstances])
        what = "RMSNorm in place of LayerNorm" if kind == "norm" else "another provider in place of aten"
        figure = savings_figure(members)
        if figure is None:
            drawn[Picture(None, f"No figure of what {what} saves ({title}): nothing was both predicted and observed.")] = b""
            continue
        slug = "-".join(["savings", kind, "model", *circumstances]).replace("/", "-").replace(":", "")
        caption = f"What {what} saves of a pass: predicted from the op tier against observed, with 95 % intervals ({title})."
        drawn[Picture(f"{slug}.png", caption)] = png(figure)
    return drawn
