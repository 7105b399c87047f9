"""A table for a terminal of any width: no cell is cut or broken. Where a row has no room on a line it becomes a block of lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from itertools import takewhile

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["FittingTable", "console"]

WIDTH_OF_A_FILE = 200
"""Columns where output goes to a file, a pipe or a CI log, none of which has a width: at rich's 80 a case's id breaks over lines."""

_WHOLE = 40
"""A cell up to this wide is never wrapped, so no figure, interval or formula is; a longer one without a space isn't either."""
_UNLIMITED = 100_000
_GAP = 2
_MOST_KEYS = 3


def console(width: int | None = None) -> Console:
    """Return what prints tables to stdout. Where that is no terminal it is `width` columns wide, else as COLUMNS says, else as a file."""
    found = Console()
    if not found.is_terminal and (width is not None or not os.environ.get("COLUMNS", "").isdigit()):
        found.width = width or WIDTH_OF_A_FILE
    return found


class FittingTable(Table):
    """Lay rows out as a table if the console is wide enough, else each as a block: its key, then a line `column  value` for the rest.

    A narrow console first wraps headers and sentences between words. The key is as many of the first columns as tell rows apart, up to
    three, and no column of figures (one that is justified to the right).
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(console, options)
        if widths is None:
            yield from self._blocks(console, options)
            return
        fitted = copy(self)
        fitted.columns = [replace(column, width=width) if width else column for column, width in zip(self.columns, widths, strict=True)]
        yield from Table.__rich_console__(fitted, console, options)

    def _widths(self, console: Console, options: ConsoleOptions) -> list[int | None] | None:
        """Return the width of each column that has to give some up, None for the others; None altogether if that is not enough."""
        wide = options.update_width(_UNLIMITED)

        def measured(parts: Iterable[RenderableType]) -> Measurement:
            found = [Measurement.get(console, wide, part) for part in parts]
            return Measurement(max((one.minimum for one in found), default=0), max((one.maximum for one in found), default=0))

        headers = [measured([column.header]) for column in self.columns]
        cells = [measured(column.cells) for column in self.columns]
        natural = [max(head.maximum, cell.maximum) for head, cell in zip(headers, cells, strict=True)]
        least = [max(head.minimum, min(cell.maximum, max(_WHOLE, cell.minimum))) for head, cell in zip(headers, cells, strict=True)]
        excess = Measurement.get(console, wide, self).maximum - options.max_width
        widths: list[int | None] = [None] * len(natural)
        for place in sorted(range(len(natural)), key=lambda place: least[place] - natural[place]):
            taken = min(max(0, excess), natural[place] - least[place])
            if taken:
                widths[place] = natural[place] - taken
                excess -= taken
        return None if excess > 0 else widths

    def _blocks(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def text(part: RenderableType) -> Text:
            return part if isinstance(part, Text) else console.render_str(str(part), markup=options.markup, highlight=options.highlight)

        names = [text(column.header).plain for column in self.columns]
        rows = list(zip(*([text(cell) for cell in column.cells] for column in self.columns), strict=True))
        words = list(takewhile(lambda column: column.justify == "left", self.columns[:_MOST_KEYS]))
        keys = _count_of_keys([[cell.plain for cell in row[: len(words)]] for row in rows])
        indent = max((len(name) for name in names[keys:]), default=0) + _GAP
        told = [(str(part), style) for part, style in ((self.title, "table.title"), (self.caption, "table.caption")) if part]
        yield from (console.render_str(part, style=style) for part, style in told)
        if told:
            yield Text()
        for row in rows:
            yield Text.assemble(Text(", ").join(row[:keys]), style="bold")
            for name, cell in zip(names[keys:], row[keys:], strict=True):
                if cell.cell_len <= options.max_width - indent:
                    yield Text.assemble(name.ljust(indent), cell)
                else:
                    yield Text(name)
                    yield Padding(cell, (0, 0, 0, _GAP))
            yield Text()


def _count_of_keys(rows: Sequence[Sequence[str]]) -> int:
    """Return how many of the first columns tell all rows apart, 1 if none do."""
    columns = range(1, len(rows[0]) + 1) if rows else range(0)
    return next((count for count in columns if len({tuple(row[:count]) for row in rows}) == len(rows)), 1)
