"""`normbench sweep`: the largest batch that fits, by norm and provider, and tokens per second on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..text.choices import DEFAULTS, Choices
from .options import with_choices
from .paths import attempted
from .show import EXIT_FAILED, EXIT_INTERRUPTED, AsJson, print_json, show_table

if TYPE_CHECKING:
    from ..sweep.conduct import Observer
    from ..sweep.journal import SweepJournal
    from ..sweep.question import Question

__all__ = ["sweep"]

_NETWORKS = "gpt2,llama"
"""A network of each norm."""
_WORDS = (
    *("preset", "mode", "provider", "dtype", "tokens", "accumulation", "autocast", "checkpointing"),
    *("device", "threads", "seed"),
)
"""What a sweep has in common with a run of the throughput tier, batches apart."""


@with_choices(*_WORDS, of_tier="Throughput tier")
def sweep(
    choices: Choices,
    network: Annotated[str, typer.Option(help="Networks that take tokens (see `normbench models list`).")] = _NETWORKS,
    norm: Annotated[str, typer.Option(help="layer_norm, rms_norm: all norms of a network are made to be of one kind.")] = DEFAULTS.norm,
    start: Annotated[int, typer.Option(help="The batch to begin with.")] = 1,
    most: Annotated[int, typer.Option(help="The largest batch to try.")] = 65536,
    resolution: Annotated[float, typer.Option(help="Share of the largest batch to find it within; 0 is exact.")] = 1 / 16,
    memory_limit: Annotated[
        str, typer.Option(help="What a process may take, such as 2GiB; when empty what is available but for a margin, on cuda all.")
    ] = "",
    budget: Annotated[float, typer.Option(help="Seconds of calls of one provider at one batch, all its processes together.")] = 2.0,
    out: Annotated[Path, typer.Option(help="Folder of the sweep: its entries, page and picture.")] = Path(".normbench/sweep"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what is there; batches that were tried are not tried again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the largest batch that fits in memory, by norm and provider, and tokens per second at each batch on the way."""
    from ..host.threads import available_cores
    from ..job.request import one_device_name
    from ..job.selection import refuse_training_words
    from ..measure.measurer import Measurer
    from ..storage.files import explained
    from ..sweep.conduct import conduct
    from ..sweep.entry import is_sound
    from ..sweep.journal import JOURNALS
    from ..sweep.limit import bytes_of
    from ..sweep.page import write_page
    from ..sweep.plain import plain_sweep
    from ..sweep.question import Question
    from ..text.choices import split
    from ..workloads.throughput import throughput_cases

    modes = split(choices.mode)
    refuse_training_words(modes, accumulation=choices.accumulation, checkpointing=choices.checkpointing)
    question = Question(
        cases=throughput_cases(
            networks=split(network),
            preset=choices.preset,
            modes=modes,
            norms=split(norm),
            dtypes=split(choices.dtype),
            trained=[start],
            served=[start],
            tokens=choices.tokens,
            accumulation=choices.accumulation,
            autocast=choices.autocast or None,
            checkpointing=choices.checkpointing,
        ),
        providers=tuple(split(choices.provider)),
        device=one_device_name(choices.device),
        threads=available_cores() if choices.threads is None else choices.threads,
        start=start,
        most=most,
        resolution=resolution,
        budget_s=budget,
        limit_bytes=bytes_of(memory_limit) if memory_limit else None,
        seed=choices.seed,
    )
    question.validate()
    if not resume:
        JOURNALS.refuse_begun(out)
    with explained(f"cannot keep a sweep in {out}"):
        out.mkdir(parents=True, exist_ok=True)
    is_interrupted = False
    with (
        Measurer(question.providers, device=question.device, plan=question.plan, log=out / "worker.log") as measurer,
        _open(question, measurer.device, out, resume=resume) as journal,
    ):
        try:
            with _watched(journal) as observer:
                conduct(journal, measurer, observer)
        except KeyboardInterrupt:
            is_interrupted = True
    page, failure = attempted(lambda: write_page(journal.header, journal.entries, out))
    if as_json:
        written = None if page is None else str(page)
        print_json({"page": written, "is_interrupted": is_interrupted, **plain_sweep(journal.header, journal.entries)})
    else:
        _show(journal, page)
    if is_interrupted:
        typer.echo(f"normbench: interrupted; {len(journal.entries)} entries are kept in {out}, and --resume goes on from them", err=True)
    if failure is not None:
        raise failure
    if is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if not is_sound(journal.entries):
        raise typer.Exit(EXIT_FAILED)


def _open(question: Question, device: Any, out: Path, *, resume: bool) -> SweepJournal:
    import torch

    from ..host.machine import machine_record
    from ..sweep.journal import JOURNALS, Header
    from ..sweep.limit import choose_limit

    header = Header(
        question=question,
        limit=choose_limit(question.limit_bytes, device),
        torch=str(torch.__version__),
        machine=str(device.get("name") or machine_record()["cpu_model"]),
        command=("normbench", *sys.argv[1:]),
    )
    return JOURNALS.open(out, header, resume=resume)


@contextmanager
def _watched(journal: SweepJournal) -> Iterator[Observer]:
    """Yield an observer that shows on stderr what is tried and what became of it, what is tried only where it is a terminal."""
    from rich.markup import escape

    from ..records.record import Status
    from ..screen.bar import make_screen
    from ..sweep.conduct import Observer
    from ..sweep.entry import Check, Entry, Point, SideBySide
    from ..sweep.table import said_of

    screen = make_screen()
    screen.print(f"limit: {journal.header.limit.words}", soft_wrap=True)
    if journal.entries:
        screen.print(f"{len(journal.entries)} entries are there already")

    with screen.status("starting …", refresh_per_second=1) as status:

        class Screen(Observer):
            def doing(self, what: str) -> None:
                status.update(escape(what))

            def found(self, entry: Entry) -> None:
                match entry:
                    case Point():
                        line = f"{_short(entry.arm)}  batch {entry.batch}: {said_of(entry)}"
                    case Check():
                        line = (
                            f"{_short(entry.arm)}  {'is right' if entry.status is Status.OK else f'{entry.status.value}: {entry.reason}'}"
                        )
                    case SideBySide():
                        line = f"{entry.company}  side by side at batch {entry.batch}" + (f": {entry.reason}" if entry.reason else "")
                screen.print(line, soft_wrap=True)

        yield Screen()


def _short(arm: str) -> str:
    """Return an arm's key without what all have in common."""
    return arm.partition("/")[2].replace("#", " by ")


def _show(journal: SweepJournal, page: Path | None) -> None:
    from ..sweep.summary import summarise
    from ..sweep.table import ARM_COLUMNS, SIDE_COLUMNS, arm_rows, reference_of, side_rows

    typer.echo(f"limit: {journal.header.limit.words}")
    for company in summarise(journal.header.question, journal.entries):
        typer.secho(f"\n{company.title}", bold=True)
        show_table(ARM_COLUMNS, arm_rows(company))
        found = company.side_by_side
        if found is not None and found.samples_s:
            typer.echo(f"side by side at batch {found.batch}, times as fast as {reference_of(found)}:")
            show_table(SIDE_COLUMNS, side_rows(company))
    if page is not None:
        typer.echo(f"page: {page}")
