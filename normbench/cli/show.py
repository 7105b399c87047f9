"""How commands print: a table for people or JSON for machines, and the exit codes they share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_USAGE", "AsJson", "plain", "print_json", "show_rows", "show_table", "table_of"]

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of a table.")]


def plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def show_rows(rows: list[dict[str, Any]], columns: list[str], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    show_table(columns, [[row[column] for column in columns] for row in rows])


def show_table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    from ..screen.terminal import console

    console().print(table_of(columns, rows))


def table_of(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Any:
    """Return rows as a plain table for a rich console; a row that one too narrow has no room for becomes a block of lines."""
    from rich.markup import escape

    from ..screen.terminal import FittingTable

    table = FittingTable(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # What stands in brackets is text, such as the extra in a pip command, and no markup.
        table.add_row(*(escape(str(value)) for value in row))
    return table
