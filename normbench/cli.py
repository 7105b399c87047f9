"""The command line: the only module that prints. Every command imports what it needs when it runs, so that --help is instant."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .choices import DEFAULTS, HELP, Choices
from .errors import NormbenchError, UsageError

__all__ = ["app", "main"]

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130

# Rich help would cost 0.1 s of imports; the commands themselves use rich where it shows something.
app = typer.Typer(name="normbench", rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of a table.")]


def _version(wanted: bool) -> None:
    if wanted:
        from .version import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    """Benchmark LayerNorm and RMSNorm: which normalisation, which kernel, how much faster, at which scope."""


@app.command()
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
    from .progress import Progress
    from .report import write_report
    from .report.console import summary_table
    from .request import make_request
    from .run import execute
    from .store import read_run

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
        _print_json({"run": str(path), "report": str(report_path), "statuses": counts, "ok": sound})
    else:
        _console().print(summary_table(finished))
        typer.echo(f"run:    {path}")
        typer.echo(f"report: {report_path}")
    if not sound:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def report(
    run: Annotated[str, typer.Argument(help="A run: its path, its name, or latest.")] = "latest",
    out: Annotated[Path | None, typer.Option(help="Folder for report.md and its pictures; the run's own folder when not given.")] = None,
    root: Annotated[str, typer.Option(help="Folder that runs lie in.")] = DEFAULTS.out,
    as_json: AsJson = False,
) -> None:
    """Write the Markdown report and the pictures of a run."""
    from .report import write_report
    from .store import read_run

    found = read_run(run, root=root)
    path = write_report(found, out if out is not None else found.path / "report")
    if as_json:
        _print_json({"run": str(found.path), "report": str(path)})
    else:
        typer.echo(str(path))


listing = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List what there is: grids, cases, providers, runs.")
app.add_typer(listing, name="list")


@listing.command("grids")
def list_grids(as_json: AsJson = False) -> None:
    """List the named grids, their shapes and why each is there."""
    from .grids import GRIDS

    rows = [
        {"grid": grid.name, "shape": "x".join(map(str, entry.shape)), "reason": entry.why, "summary": grid.summary}
        for grid in GRIDS.values()
        for entry in grid.shapes
    ]
    _show(rows, ["grid", "shape", "reason"], as_json)


@listing.command("cases")
def list_cases(
    grid: Annotated[str, typer.Option(help=HELP["grid"])] = DEFAULTS.grid,
    norm: Annotated[str, typer.Option(help=HELP["norm"])] = DEFAULTS.norm,
    pass_: Annotated[str, typer.Option("--pass", help=HELP["pass_"])] = DEFAULTS.pass_,
    dtype: Annotated[str, typer.Option(help=HELP["dtype"])] = DEFAULTS.dtype,
    as_json: AsJson = False,
) -> None:
    """List the ids of the cases that a choice of grid, norm, pass and dtype gives."""
    from .request import make_cases
    from .traffic import bytes_moved, flops

    cases, _ = make_cases(Choices(grid=grid, norm=norm, pass_=pass_, dtype=dtype))
    rows = [{"case": case.id, "bytes": bytes_moved(case), "flops": flops(case)} for case in cases]
    _show(rows, ["case", "bytes", "flops"], as_json)


@listing.command("providers")
def list_providers(as_json: AsJson = False) -> None:
    """List the providers that can be named, and where each comes from."""
    from .registry import Registry

    _show([{"provider": name, "origin": origin} for name, origin in Registry.names().items()], ["provider", "origin"], as_json)


@listing.command("runs")
def list_runs_command(
    root: Annotated[str, typer.Option(help="Folder that runs lie in.")] = DEFAULTS.out,
    as_json: AsJson = False,
) -> None:
    """List the runs on disk, oldest first."""
    from .store import list_runs, read_run

    rows = []
    for name in list_runs(root):
        found = read_run(name, root=root)
        rows.append({"run": name, "status": found.info.status.value, "records": len(found.records), "planned": found.info.planned})
    _show(rows, ["run", "status", "records", "planned"], as_json)


@app.command()
def env(as_json: AsJson = False) -> None:
    """Show this machine as runs record it: processor, memory, cores, versions, GPUs, and why a field is empty."""
    from .measure.machine import machine_identity, machine_record, package_versions

    machine = machine_record()
    found = {"identity": machine_identity(machine), "machine": machine, "versions": package_versions()}
    if as_json:
        _print_json(found)
        return
    rows = [{"field": "identity", "value": found["identity"]}]
    rows += [{"field": name, "value": _plain(value)} for name, value in machine.items() if name != "reasons"]
    rows += [{"field": f"{name} version", "value": _plain(value)} for name, value in package_versions().items()]
    rows += [{"field": f"why no {name}", "value": reason} for name, reason in machine.get("reasons", {}).items()]
    _show(rows, ["field", "value"], as_json=False)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def _console() -> Any:
    from rich.console import Console

    return Console()


def _show(rows: list[dict[str, Any]], columns: list[str], as_json: bool) -> None:
    if as_json:
        _print_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    _console().print(table)


def main() -> None:
    """Run the command line; our own errors become one line on stderr and an exit code, 2 for input that cannot work."""
    _guarded(app)


def _guarded(command: Callable[[], Any]) -> None:
    try:
        command()
    except UsageError as error:
        typer.echo(f"normbench: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except NormbenchError as error:
        typer.echo(f"normbench: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        typer.echo("normbench: interrupted; what was measured is kept, and `--resume latest` goes on with it", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
