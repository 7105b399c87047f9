"""`normbench run` and `normbench report`: the main job and what is read of it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..text.choices import DEFAULTS, Choices, fields, words_of
from .options import with_choices
from .paths import attempted, require_folder_place
from .show import EXIT_FAILED, AsJson, print_json

if TYPE_CHECKING:
    from ..job.request import Request

__all__ = ["report", "run"]


@with_choices(*(name for name, _ in fields()))
def run(
    choices: Choices,
    shard: Annotated[str, typer.Option(help="Take only part i of n, as in 2/8; `normbench merge` joins the parts.")] = "",
    ray: Annotated[str, typer.Option(help="Measure on the nodes of the Ray cluster at host:port, or auto for this machine's.")] = "",
    ray_any_version: Annotated[
        bool, typer.Option("--ray-any-version", help="Measure on nodes with other versions than here, too.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="Port at which several processes meet; a free one when not given.")] = None,
    report_dir: Annotated[Path | None, typer.Option("--report", help="Folder for the report; the run's own folder when not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check and time providers side by side over a grid of cases, and write a report."""
    from ..distributed import gathering
    from ..job.request import make_request
    from ..job.shard import Shard
    from ..report import write_report
    from ..report.console import summary_table
    from ..screen.terminal import console
    from ..storage.stored_run import read_run

    require_folder_place("--report", report_dir)
    if ray_any_version and not ray:
        raise UsageError("ray-any-version means nothing without ray: give --ray, or leave it out")
    words = ["--shard", shard] * bool(shard) + ["--report", str(report_dir)] * (report_dir is not None) + ["--json"] * as_json
    if choices.nproc > 1 and gathering.current is None:
        raise typer.Exit(_start_processes(choices.nproc, choices, words, ray=ray, port=port))
    request = make_request(choices, command=["normbench", *sys.argv[1:]], shard=Shard.parse(shard) if shard else None)
    if request.processes > 1 and gathering.current is None:
        # A run that is gone on with.
        raise typer.Exit(_start_processes(request.processes, choices, words, ray=ray, port=port))
    if port is not None:
        raise UsageError(f"port {port} means nothing here: one process meets no other; give nproc, such as 2, or leave it out")
    path, sound = _on_cluster(request, ray, is_any_version=ray_any_version) if ray else _here(request)
    finished = read_run(path)
    report_path, failure = attempted(lambda: write_report(finished, report_dir if report_dir is not None else path / "report"))
    if as_json:
        counts: dict[str, int] = {}
        for record in finished.records:
            counts[record.status.value] = counts.get(record.status.value, 0) + 1
        print_json({"run": str(path), "report": None if report_path is None else str(report_path), "statuses": counts, "ok": sound})
    else:
        console().print(summary_table(finished))
        typer.echo(f"run:    {path}")
        if report_path is not None:
            typer.echo(f"report: {report_path}")
    if failure is not None:
        raise failure
    if not sound:
        raise typer.Exit(EXIT_FAILED)


def _here(request: Request) -> tuple[Path, bool]:
    from ..distributed import gathering
    from ..job.progress import Progress
    from ..job.run import execute
    from ..measure.measurer import Measurer

    measurer: Any = Measurer
    if request.processes > 1 or gathering.current is not None:
        from ..distributed.measurer import team_measurer

        measurer = team_measurer(gathering.current, request.processes)
    with Progress() as progress:
        return execute(request, progress, measurer=measurer)


def _start_processes(nproc: int, choices: Choices, words: list[str], *, ray: str, port: int | None) -> int:
    """Have torchrun start all processes and return the exit code of rank 0, which tells the user everything."""
    from ..distributed.launch import launch
    from ..host.threads import available_cores

    if ray:
        raise UsageError(f"nproc {nproc} and ray {ray!r}: several processes train on one node; leave one of the two out")
    threads = choices.threads if choices.threads is not None else max(1, available_cores() // nproc)
    # How many there are torchrun tells every one itself; `--nproc` it would take for an option of its own, cut short.
    return launch([*words_of(replace(choices, nproc=DEFAULTS.nproc)), *words], processes=nproc, threads=threads, port=port)


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
    from ..storage.stored_run import read_run

    require_folder_place("--out", out)
    found = read_run(run, root=root)
    path = write_report(found, out if out is not None else found.path / "report")
    if as_json:
        print_json({"run": str(found.path), "report": str(path)})
    else:
        typer.echo(str(path))
