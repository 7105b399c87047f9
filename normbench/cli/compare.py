"""`normbench compare`: what two stored runs say side by side, and what they cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..text.choices import DEFAULTS
from .paths import require_file_place, write_file
from .show import AsJson, show_table

if TYPE_CHECKING:
    from ..comparison.outcome import Comparison

__all__ = ["compare"]

ROWS_SHOWN = 24
"""A screen of rows; what is left out is the least urgent, and is in the JSON and the Markdown."""


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The earlier run: its path, its name, or latest.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The later run, likewise.")],
    fail_on: Annotated[str, typer.Option(help="Fail (exit 1) where B is slower by more than this for certain, such as 5%.")] = "",
    across: Annotated[str, typer.Option(help="Fields in which the runs may differ because that is what is studied, such as torch.")] = "",
    reference: Annotated[str, typer.Option(help="What no change touched, in both runs; copy or no_norm when not given.")] = "",
    root: Annotated[str, typer.Option(help="Folder that runs lie in.")] = DEFAULTS.out,
    markdown: Annotated[Path | None, typer.Option(help="Also write the comparison as Markdown to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two stored runs; exit 0 whatever is found, but with --fail-on 1: slower or wrong, 3: cannot tell, 4: missing."""
    from ..comparison.outcome import compare_runs, to_json
    from ..comparison.table import markdown as as_markdown
    from ..gate.words import share
    from ..storage.stored_run import read_run
    from ..text.choices import split

    require_file_place("--markdown", markdown)
    limit = share(fail_on, "fail-on") if fail_on else None
    before, after = (read_run(run, root=root) for run in (a, b))
    found = compare_runs(before, after, across=split(across), reference=reference or None, fail_on=limit)
    if as_json:
        typer.echo(to_json(found).decode(), nl=False)
    else:
        _show(found)
    if markdown is not None:
        write_file(markdown, as_markdown(found).encode())
    if found.exit_code:
        raise typer.Exit(int(found.exit_code))


def _show(found: Comparison) -> None:
    from ..comparison.table import columns, lines_below, rows

    typer.echo(found.sentence)
    shown = rows(found)
    if shown:
        show_table(columns(found), shown[:ROWS_SHOWN])
    if len(shown) > ROWS_SHOWN:
        typer.echo(f"… and {len(shown) - ROWS_SHOWN} rows that are less urgent; --json and --markdown have all")
    for line in lines_below(found):
        typer.echo(line)
