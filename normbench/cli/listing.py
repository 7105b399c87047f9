"""`normbench list` and `normbench env`: what there is to choose from, and on which machine."""

from __future__ import annotations

from typing import Annotated

import typer

from ..choices import DEFAULTS, HELP, Choices
from .show import AsJson, plain, print_json, show_rows

__all__ = ["env", "listing"]

listing = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List what there is: grids, cases, providers, runs.")


@listing.command("grids")
def list_grids(as_json: AsJson = False) -> None:
    """List the named grids, their shapes and why each is there."""
    from ..grids import GRIDS

    rows = [
        {"grid": grid.name, "shape": "x".join(map(str, entry.shape)), "reason": entry.why, "summary": grid.summary}
        for grid in GRIDS.values()
        for entry in grid.shapes
    ]
    show_rows(rows, ["grid", "shape", "reason"], as_json)


@listing.command("cases")
def list_cases(
    grid: Annotated[str, typer.Option(help=HELP["grid"])] = DEFAULTS.grid,
    norm: Annotated[str, typer.Option(help=HELP["norm"])] = DEFAULTS.norm,
    pass_: Annotated[str, typer.Option("--pass", help=HELP["pass_"])] = DEFAULTS.pass_,
    dtype: Annotated[str, typer.Option(help=HELP["dtype"])] = DEFAULTS.dtype,
    as_json: AsJson = False,
) -> None:
    """List the ids of the cases that a choice of grid, norm, pass and dtype gives."""
    from ..selection import make_cases
    from ..traffic import bytes_moved, flops

    cases, _ = make_cases(Choices(grid=grid, norm=norm, pass_=pass_, dtype=dtype))
    rows = [{"case": case.id, "bytes": bytes_moved(case), "flops": flops(case)} for case in cases]
    show_rows(rows, ["case", "bytes", "flops"], as_json)


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
    """List the runs on disk, oldest first."""
    from ..stored_run import list_runs, read_run

    rows = []
    for name in list_runs(root):
        found = read_run(name, root=root)
        rows.append({"run": name, "status": found.info.status.value, "records": len(found.records), "planned": found.info.planned})
    show_rows(rows, ["run", "status", "records", "planned"], as_json)


def env(as_json: AsJson = False) -> None:
    """Show this machine as runs record it: processor, memory, cores, versions, GPUs, and why a field is empty."""
    from ..measure.machine import machine_identity, machine_record, package_versions

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
