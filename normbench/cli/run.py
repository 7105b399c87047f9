"""`normbench run` and `normbench report`: the main job and what is read of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..choices import DEFAULTS, HELP, Choices
from .show import EXIT_FAILED, AsJson, console, print_json

__all__ = ["report", "run"]


def run(
    grid: Annotated[str, typer.Option(help=HELP["grid"])] = DEFAULTS.grid,
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
    report_dir: Annotated[Path | None, typer.Option("--report", help="Folder for the report; the run's own folder when not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check and time providers side by side over a grid of cases, and write a report."""
    from ..progress import Progress
    from ..report import write_report
    from ..report.console import summary_table
    from ..request import make_request
    from ..run import execute
    from ..store import read_run

    choices = Choices(
        grid=grid,
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
    request = make_request(choices, command=["normbench", *sys.argv[1:]])
    with Progress() as progress:
        path, sound = execute(request, progress)
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
