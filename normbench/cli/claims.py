"""`normbench claims`: published figures held against what is measured or computed here, each with a verdict and its reason."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..text.choices import DEFAULTS
from .paths import attempted, require_folder_place, require_folder_there
from .show import AsJson, print_json, show_rows, show_table

if TYPE_CHECKING:
    from ..claims.evaluators import Evaluation

__all__ = ["claims"]

STUDIES = ".normbench/studies"
"""Where studies are unless said otherwise; claims that need none of them do not need the folder."""


def claims(
    names: Annotated[str, typer.Option("--id", help="Ids of claims, with commas between; all of them when empty.")] = "",
    tier: Annotated[str, typer.Option(help="Claims of these tiers: op, model, throughput, quality, accounting.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Measure no whole network and no large tensor.")] = False,
    studies: Annotated[
        Path | None, typer.Option(help=f"Folder of studies, as `normbench study --out` made it; {STUDIES} when not given.")
    ] = None,
    run: Annotated[str, typer.Option(help="Runs whose records are used before anything is measured, with commas between.")] = "",
    runs: Annotated[Path, typer.Option(help="Folder that runs lie in, and new ones are written to.")] = Path(DEFAULTS.out),
    out: Annotated[Path | None, typer.Option(help="Folder for the page and its picture; none is written when not given.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the claims and evaluate none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hold published claims on LayerNorm and RMSNorm against this machine, each with its scope and one verdict."""
    from ..claims.context import Context
    from ..claims.evaluators import evaluate
    from ..claims.page import NO_VERDICT, counts, write_page
    from ..published import claim
    from ..published import claims as published
    from ..screen.bar import make_bar, make_screen
    from ..text.choices import split

    if names and not split(names):
        raise UsageError(f"--id {names!r} names no claim: `normbench claims --list` lists them")
    chosen = tuple(claim(name) for name in split(names)) if names else published()
    tiers = split(tier)
    if unknown := [word for word in tiers if word not in {one.tier for one in published()}]:
        raise UsageError(f"tier {unknown[0]!r} has no claim; known are {', '.join(dict.fromkeys(one.tier for one in published()))}")
    chosen = tuple(one for one in chosen if not tiers or one.tier in tiers)
    if not chosen:
        raise UsageError("no claim is left: none of those named by --id is of the tiers named by --tier")
    if listed:
        rows = [{"id": one.id, "tier": one.tier, "kind": one.kind, "source": one.source, "statement": one.statement} for one in chosen]
        show_rows(rows, ["id", "tier", "kind", "statement"], as_json)
        return
    require_folder_there("--studies", studies)
    require_folder_place("--out", out)
    screen = make_screen()
    context = Context(
        studies=studies or Path(STUDIES),
        runs=split(run),
        root=runs,
        quick=quick,
        say=lambda text: screen.print(text, soft_wrap=True),
    )
    found = []
    with make_bar(screen) as bar:
        task = bar.add_task("", total=len(chosen))
        for one in evaluate(chosen, context):
            found.append(one)
            bar.update(task, advance=1)
            verdict = one.ruling.verdict.value if one.ruling.verdict else NO_VERDICT
            if not as_json:
                screen.print(f"{len(found)} of {len(chosen)}  {one.claim.id}: {verdict}", soft_wrap=True)
    page, failure = None, None
    if out is not None:
        command, machine = shlex.join(["normbench", *sys.argv[1:]]), _machine()
        page, failure = attempted(lambda: write_page(found, out, command=command, machine=machine))
    if as_json:
        print_json({"counts": counts(found), "page": None if page is None else str(page), "claims": [_plain(one) for one in found]})
    else:
        _show(found)
        if page is not None:
            typer.echo(f"page: {page}")
    if failure is not None:
        raise failure


def _show(found: Sequence[Evaluation]) -> None:
    from ..claims.page import NO_VERDICT, counts

    rows_shown = [[one.claim.id, one.ruling.verdict.value if one.ruling.verdict else NO_VERDICT, one.ruling.reason] for one in found]
    show_table(["claim", "verdict", "why"], rows_shown)
    typer.echo(", ".join(f"{count} {word}" for word, count in counts(found).items()))


def _machine() -> str:
    from ..host.machine import machine_record

    machine = machine_record()
    return f"{machine['cpu_model']} with {machine['cores']} cores"


def _plain(one: Any) -> dict[str, Any]:
    """Return an evaluation as strict JSON: an end that is infinite becomes null."""
    import msgspec

    from ..claims.verdict import Bound

    def bound(limit: Bound) -> dict[str, Any]:
        ends = {"least": limit.least, "most": limit.most}
        return {"name": limit.name, "text": limit.text} | {name: end if abs(end) != float("inf") else None for name, end in ends.items()}

    claim = one.claim
    return {
        "id": claim.id,
        "source": f"{claim.source} {claim.place}",
        "tier": claim.tier,
        "kind": claim.kind,
        "scope": claim.scope,
        "statement": claim.statement,
        "published": msgspec.to_builtins(claim.published),
        "differs": claim.differs,
        "verdict": one.ruling.verdict.value if one.ruling.verdict else None,
        "reason": one.ruling.reason,
        "where": one.measured.where if one.measured else None,
        "found": {name: msgspec.to_builtins(value) for name, value in one.measured.values.items()} if one.measured else None,
        "bounds": [bound(limit) for limit in one.measured.bounds] if one.measured else [],
    }
