"""Text as Markdown that shows it as it is, and tables of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["escape", "laid_out", "table"]

_RULES = {"l": "---", "r": "--:"}


def escape(text: str, limit: int = 400) -> str:
    """Return text that Markdown shows as it is, on one line, also in a cell of a table; cut at `limit` characters."""
    line = " ".join(text.split())
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    # Underscores inside a word begin nothing, so names such as rms_norm stay readable in the source.
    return re.sub(r"[\\`*\[\]<>|~#]|(?<!\w)_+|_+(?!\w)", lambda found: "".join(f"\\{sign}" for sign in found[0]), line)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, align: str = "lr", limit: int = 400) -> list[str]:
    """Return the lines of a table that shows its text as it is, a cell cut at `limit` characters. `align` is that of `laid_out`."""
    return laid_out([escape(name, limit) for name in columns], ([escape(cell, limit) for cell in row] for row in rows), align=align)


def laid_out(columns: Sequence[str], rows: Iterable[Sequence[str]], *, align: str = "lr") -> list[str]:
    """Return the lines of a table whose cells are Markdown already.

    `align` has an `l` (left) or `r` (right) for each column; its last letter is that of all further ones.
    """
    rules = [_RULES[align[min(place, len(align) - 1)]] for place in range(len(columns))]
    return [f"| {' | '.join(cells)} |" for cells in (columns, rules, *rows)]
