"""`normbench merge`: runs taken apart, joined into one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..text.choices import DEFAULTS
from .show import AsJson, print_json

__all__ = ["merge"]


def merge(
    runs: Annotated[list[str], typer.Argument(help="Runs: their paths, or their names under --out.", metavar="RUN RUN...")],
    out: Annotated[str, typer.Option(help="Folder that the joined run is written to.")] = DEFAULTS.out,
    as_json: AsJson = False,
) -> None:
    """Join runs taken apart, such as shards, into one; each record keeps the machine it was taken on."""
    from ..fleet.merge import merge_runs
    from ..storage.stored_run import find_run

    path = merge_runs(runs, command=["normbench", *sys.argv[1:]], root=out)
    if as_json:
        _, info = find_run(path)
        print_json({"run": str(path), "planned": info.planned, "status": info.status.value, "notes": info.notes})
    else:
        typer.echo(f"run:    {path}")
        typer.echo(f"report: normbench report {path}")
