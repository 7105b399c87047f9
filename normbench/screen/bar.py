"""The bar that shows how far long work is: on stderr, and only where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["counting", "make_bar", "make_screen"]


def make_screen() -> Console:
    """Return what writes to stderr for people, names and errors as they are: nothing in them is markup, an emoji or a number to colour."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def make_bar(screen: Console, *, is_counted: bool = True, is_transient: bool = False, budget_s: float | None = None) -> Progress:
    """Return a bar with the time passed, the time left and a description; a context manager.

    `is_counted` shows how many of how many are done, otherwise a percentage. `is_transient` leaves nothing of it behind. With a budget
    that time stands in place of what is done and what is left: nobody knows how much there is to do.
    """
    if budget_s is None:
        done = MofNCompleteColumn() if is_counted else TaskProgressColumn()
        columns: tuple[ProgressColumn, ...] = (done, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    else:
        columns = (TimeElapsedColumn(), TextColumn(f"of at most {budget_s:.0f} s"))
    return Progress(
        BarColumn(bar_width=24),
        *columns,
        TextColumn("{task.description}", markup=False),
        console=screen,
        # Drawing takes a core from what is being measured; once a second is enough for a person.
        refresh_per_second=1,
        transient=is_transient,
        disable=not screen.is_terminal,
    )


@contextmanager
def counting() -> Iterator[Callable[[int, int, str], None]]:
    """Show how many of how many are done and what is in hand, as long as the work goes on; yield what is told of it."""
    with make_bar(make_screen(), is_transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
