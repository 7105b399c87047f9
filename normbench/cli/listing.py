"""`normbench list` and `normbench env`: what there is to choose from, and on which machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from ..text.choices import DEFAULTS, OF_CASES, Choices
from .options import with_choices
from .paths import require_folder_there
from .show import AsJson, plain, print_json, show_rows

__all__ = ["env", "listing"]

listing = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List what there is: grids, cases, providers, runs.")


@listing.command("grids")
def list_grids(as_json: AsJson = False) -> None:
    """List the named grids, their shapes and why each is there."""
    from ..cases.grids import GRIDS
    from ..cases.shape import shape_text

    rows = [
        {"grid": grid.name, "shape": shape_text(entry.shape), "reason": entry.why, "summary": grid.summary}
        for grid in GRIDS.values()
        for entry in grid.shapes
    ]
    show_rows(rows, ["grid", "shape", "reason"], as_json)


@listing.command("cases")
@with_choices("tier", *OF_CASES, "nproc", "global_batch")
def list_cases(
    choices: Choices,
    as_json: AsJson = False,
) -> None:
    """List the ids of the cases that `normbench run` would measure with the same words, those of the op tier with their traffic."""
    from ..cases.case import Case
    from ..cases.traffic import bytes_moved, flops
    from ..job.selection import select_cases

    cases, _ = select_cases(choices)
    if not cases:
        raise UsageError("no case is left: the choices of grid or network, norm, pass or mode and dtype leave none")
    rows: list[dict[str, Any]] = []
    for case in cases:
        traffic = {"bytes": bytes_moved(case), "flops": flops(case)} if isinstance(case, Case) else {}
        rows.append({"case": case.id, **traffic})
    show_rows(rows, list(rows[0]), as_json)


@listing.command("providers")
def list_providers(as_json: AsJson = False) -> None:
    """List the providers that can be named, whether what each needs is installed, and where each comes from."""
    from ..registry import Registry

    rows = []
    for name, origin in Registry.names().items():
        missing = Registry.missing(name)
        rows.append({"provider": name, "installed": "no" if missing else "yes", "origin": origin, "note": missing or origin})
    show_rows(rows, ["provider", "installed", "note"], as_json)


@listing.command("runs")
def list_runs_command(
    root: Annotated[str, typer.Option(help="Folder that runs lie in.")] = DEFAULTS.out,
    as_json: AsJson = False,
) -> None:
    """List the runs on disk, oldest first, with how many of the planned records are there: those of providers."""
    from ..records.record import Role
    from ..storage.stored_run import list_runs, read_run

    if root != DEFAULTS.out:
        require_folder_there("--root", Path(root))
    rows = []
    for name in list_runs(root):
        found = read_run(name, root=root)
        records = sum(record.role is Role.PROVIDER for record in found.records)
        rows.append({"run": name, "status": found.info.status.value, "records": records, "planned": found.info.planned})
    show_rows(rows, ["run", "status", "records", "planned"], as_json)


def env(as_json: AsJson = False) -> None:
    """Show this machine as runs record it: processor, memory, cores, versions, GPUs, and why a field is empty."""
    from ..host.machine import machine_identity, machine_record, package_versions

    machine = machine_record()
    found = {"identity": machine_identity(machine), "machine": machine, "versions": package_versions()}
    if as_json:
        print_json(found)
        return
    rows = [{"field": "identity", "value": found["identity"]}]
    rows += [{"field": name, "value": plain(value)} for name, value in machine.items() if name != "reasons"]
    rows += [{"field": f"{name} version", "value": plain(value)} for name, value in package_versions().items()]
    rows += [{"field": f"why no {name}", "value": reason} for name, reason in machine.get("reasons", {}).items()]
    show_rows(rows, ["field", "value"], as_json=False)
