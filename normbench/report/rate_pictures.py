"""Which figures the throughput tier has: their files, captions and bytes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from matplotlib.figure import Figure

from ..cases.throughput_case import Mode
from ..drawing.canvas import in_house_style, png
from .companies import Company, Setting, by_setting
from .markdown import Picture
from .rate_figure import bar_figure, batch_figure
from .sustained_figure import sustained_figure

__all__ = ["draw_rates"]


@in_house_style
def draw_rates(companies: Sequence[Company]) -> dict[Picture, bytes]:
    """Return each picture with its PNG, or without a file and with the reason when there is nothing to draw.

    What has several batches of a network and length is drawn against the batch, the rest as bars. A sustained run has a figure where it was
    looked at twice or more: of each mode that of the largest batch of each network.
    """
    drawn: dict[Picture, bytes] = {}
    pages: dict[tuple[str, Setting], list[Company]] = {}
    for setting, members in by_setting(companies).items():
        # Modes stand side by side in a figure if they differ in nothing else; options of training leave serving alone.
        page = msgspec.structs.replace(setting, mode=Mode.PREFILL if setting.mode is Mode.DECODE else setting.mode)
        lines = Counter((one.network, one.size[1]) for one in members)
        kind = "batch" if max(lines.values()) > 1 else "bars"
        pages.setdefault((kind, page), []).extend(members)
    for (kind, page), members in pages.items():
        figure = batch_figure(members) if kind == "batch" else bar_figure(members)
        words = "-".join(dict.fromkeys(one.setting.mode.value for one in members))
        what = "Tokens per second against the batch" if kind == "batch" else "Tokens per second"
        _add(
            drawn,
            figure,
            f"rates-{kind}-{words}",
            f"{what}, with 95 % intervals",
            f"{words.replace('-', ' and ')}",
            page,
            "nothing was measured",
        )
    for setting, members in by_setting(companies).items():
        figure = sustained_figure(_largest(members))
        if figure is not None:
            caption = "Each arm by itself over time, at the largest batch"
            _add(drawn, figure, f"sustained-{setting.mode.value}", caption, setting.mode.value, setting, "")
    return drawn


def _largest(companies: Sequence[Company]) -> list[Company]:
    best: dict[str, Company] = {}
    for one in companies:
        if one.network not in best or one.size > best[one.network].size:
            best[one.network] = one
    return list(best.values())


def _add(drawn: dict[Picture, bytes], figure: Figure | None, kind: str, caption: str, modes: str, setting: Setting, nothing: str) -> None:
    options = f" ({', '.join(setting.options)})" if setting.options else ""
    title = f"{modes}, {setting.preset}, {setting.dtype.value}{options}; {setting.circumstances}"
    if figure is None:
        drawn[Picture(None, f"No figure of tokens per second ({title}): {nothing}.")] = b""
        return
    words = [kind, setting.machine, setting.preset, setting.dtype.value, *setting.options, setting.conditions.id]
    slug = "-".join(word for word in words if word).replace("/", "-").replace(":", "")
    drawn[Picture(f"{slug}.png", f"{caption} ({title}).")] = png(figure)
