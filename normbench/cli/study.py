"""`normbench study`: run an experiment on what norms do, or go on with one, and write its page."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import NormbenchError, UsageError
from .paths import attempted
from .show import AsJson, print_json, show_rows, show_table

if TYPE_CHECKING:
    from ..studies.study import Study

__all__ = ["study"]


def study(
    name: Annotated[str, typer.Argument(help="A study, several with commas between, `all`, or `list`.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Few steps, few settings: each study well under two minutes on two cores.")
    ] = False,
    steps: Annotated[int | None, typer.Option(help="Training steps of each trial, where a study trains.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of each setting.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of studies; each has a folder of its name in it.")] = Path(".normbench/studies"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is there; finished trials are not run again.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes for long trials; the cores that may be used when not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run studies of stability, statistics and precision; each writes a table, a picture and its observations."""
    from ..studies.catalogue import STUDIES
    from ..studies.catalogue import study as find
    from ..studies.journal import JOURNALS
    from ..studies.study import Scale
    from ..text.choices import split

    if name == "list":
        show_rows([{"study": one.name, "summary": one.summary} for one in STUDIES], ["study", "summary"], as_json)
        return
    chosen = STUDIES if name == "all" else tuple(find(part) for part in split(name))
    if not chosen:
        raise UsageError(f"study {name!r} names none: `normbench study list` lists them")
    scale = Scale(quick=quick, steps=steps, seeds=seeds)
    scale.refuse_idle(chosen)
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs {jobs} is none: give at least 1")
    if jobs is not None and jobs > 1 and not any(one.is_long for one in chosen):
        names = ", ".join(one.name for one in chosen)
        raise UsageError(f"jobs {jobs} means nothing here: no trial of {names} is long, all run in one process; leave it out")
    if not resume:
        for one in chosen:
            JOURNALS.refuse_begun(out / one.name)
    done = [_run(one, scale, out / one.name, resume=resume, jobs=jobs, as_json=as_json) for one in chosen]
    if as_json:
        print_json([said for said, _ in done])
    for _, failure in done:
        if failure is not None:
            raise failure


def _run(
    found: Study, scale: Any, path: Path, *, resume: bool, jobs: int | None, as_json: bool
) -> tuple[dict[str, Any], NormbenchError | None]:
    """Run a study, show what it says and return that, with the reason where its page could not be written."""
    import msgspec

    from ..host.threads import available_cores
    from ..screen.bar import make_bar, make_screen
    from ..studies.conduct import conduct
    from ..studies.journal import JOURNALS
    from ..studies.page import write_page

    screen = make_screen()
    with make_bar(screen, is_counted=False) as bar:
        task = bar.add_task(found.name)

        def done(key: str, cost: float) -> None:
            bar.update(task, advance=cost, description=f"{found.name}: {key}")
            if found.is_long:
                screen.print(f"{found.name}: {key}", soft_wrap=True)

        observations = conduct(
            found,
            scale,
            path,
            resume=resume,
            jobs=available_cores() if jobs is None else jobs,
            started=lambda total, there: bar.update(task, total=total, completed=there),
            done=done,
        )
    header, _ = JOURNALS.read(path)
    findings = found.says(observations)
    command = shlex.join(["normbench", *sys.argv[1:]])
    page, failure = attempted(
        lambda: write_page(found, findings, observations, path, command=command, machine=header.machine, torch=header.torch)
    )
    if not as_json:
        for sentence in findings.sentences:
            typer.echo(sentence)
        for table in findings.tables:
            typer.secho(f"\n{table.title}", bold=True)
            show_table(table.columns, table.rows)
        if page is not None:
            typer.echo(f"page: {page}\n")
    said = {"study": found.name, "page": None if page is None else str(page), "observations": len(observations)}
    return said | msgspec.to_builtins(findings), failure
