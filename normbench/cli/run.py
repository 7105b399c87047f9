"""`normbench run` and `normbench report`: the main job and what is read of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..choices import DEFAULTS, HELP, Choices
from .show import EXIT_FAILED, AsJson, console, print_json

if TYPE_CHECKING:
    from ..request import Request

__all__ = ["report", "run"]


def run(
    tier: Annotated[str, typer.Option(help=HELP["tier"])] = DEFAULTS.tier,
    grid: Annotated[str, typer.Option(help=HELP["grid"])] = DEFAULTS.grid,
    network: Annotated[str, typer.Option(help=HELP["network"])] = DEFAULTS.network,
    preset: Annotated[str, typer.Option(help=HELP["preset"])] = DEFAULTS.preset,
    case: Annotated[str, typer.Option(help=HELP["case"])] = DEFAULTS.case,
    provider: Annotated[str, typer.Option(help=HELP["provider"])] = DEFAULTS.provider,
    norm: Annotated[str, typer.Option(help=HELP["norm"])] = DEFAULTS.norm,
    pass_: Annotated[str, typer.Option("--pass", help=HELP["pass_"])] = DEFAULTS.pass_,
    dtype: Annotated[str, typer.Option(help=HELP["dtype"])] = DEFAULTS.dtype,
    weight_dtype: Annotated[str, typer.Option(help=HELP["weight_dtype"])] = DEFAULTS.weight_dtype,
    device: Annotated[str, typer.Option(help=HELP["device"])] = DEFAULTS.device,
    threads: Annotated[int | None, typer.Option(help=HELP["threads"])] = DEFAULTS.threads,
    cache: Annotated[str, typer.Option(help=HELP["cache"])] = DEFAULTS.cache,
    pages: Annotated[str, typer.Option(help=HELP["pages"])] = DEFAULTS.pages,
    budget: Annotated[float, typer.Option(help=HELP["budget"])] = DEFAULTS.budget,
    seed: Annotated[int, typer.Option(help=HELP["seed"])] = DEFAULTS.seed,
    out: Annotated[str, typer.Option(help=HELP["out"])] = DEFAULTS.out,
    resume: Annotated[str | None, typer.Option(help=HELP["resume"])] = DEFAULTS.resume,
    shard: Annotated[str, typer.Option(help="Take only part i of n, as in 2/8; `normbench merge` joins the parts.")] = "",
    ray: Annotated[str, typer.Option(help="Measure on the nodes of the Ray cluster at host:port, or auto for this machine's.")] = "",
    ray_any_version: Annotated[bool, typer.Option(help="Measure on nodes with other versions than here, too.")] = False,
    report_dir: Annotated[Path | None, typer.Option("--report", help="Folder for the report; the run's own folder when not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check and time providers side by side over a grid of cases, and write a report."""
    from ..fleet.shard import Shard
    from ..report import write_report
    from ..report.console import summary_table
    from ..request import make_request
    from ..store import read_run

    choices = Choices(
        tier=tier,
        grid=grid,
        network=network,
        preset=preset,
        case=case,
        provider=provider,
        norm=norm,
        pass_=pass_,
        dtype=dtype,
        weight_dtype=weight_dtype,
        device=device,
        threads=threads,
        cache=cache,
        pages=pages,
        budget=budget,
        seed=seed,
        out=out,
        resume=resume,
    )
    request = make_request(choices, command=["normbench", *sys.argv[1:]], shard=Shard.parse(shard) if shard else None)
    path, sound = _on_cluster(request, ray, is_any_version=ray_any_version) if ray else _here(request)
    finished = read_run(path)
    report_path = write_report(finished, report_dir if report_dir is not None else path / "report")
    if as_json:
        counts: dict[str, int] = {}
        for record in finished.records:
            counts[record.status.value] = counts.get(record.status.value, 0) + 1
        print_json({"run": str(path), "report": str(report_path), "statuses": counts, "ok": sound})
    else:
        console().print(summary_table(finished))
        typer.echo(f"run:    {path}")
        typer.echo(f"report: {report_path}")
    if not sound:
        raise typer.Exit(EXIT_FAILED)


def _here(request: Request) -> tuple[Path, bool]:
    from ..progress import Progress
    from ..run import execute

    with Progress() as progress:
        return execute(request, progress)


def _on_cluster(request: Request, address: str, *, is_any_version: bool) -> tuple[Path, bool]:
    from ..fleet.conduct import execute_on
    from ..fleet.progress import FleetProgress
    from ..fleet.ray_cluster import RayCluster

    with FleetProgress() as progress:
        return execute_on(lambda: RayCluster(request, address, folder=os.getcwd(), is_any_version=is_any_version), request, progress)


def report(
    run: Annotated[str, typer.Argument(help="A run: its path, its name, or latest.")] = "latest",
    out: Annotated[Path | None, typer.Option(help="Folder for report.md and its pictures; the run's own folder when not given.")] = None,
    root: Annotated[str, typer.Option(help="Folder that runs lie in.")] = DEFAULTS.out,
    as_json: AsJson = False,
) -> None:
    """Write the Markdown report and the pictures of a run."""
    from ..report import write_report
    from ..store import read_run

    found = read_run(run, root=root)
    path = write_report(found, out if out is not None else found.path / "report")
    if as_json:
        print_json({"run": str(found.path), "report": str(path)})
    else:
        typer.echo(str(path))
