"""The bar that shows how far long work is: on stderr, and only where that is a terminal."""

from __future__ import annotations

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

__all__ = ["make_bar", "make_screen"]


def make_screen() -> Console:
    """Return what writes to stderr for people, without colouring what looks like a number."""
    return Console(stderr=True, highlight=False)


def make_bar(screen: Console, *, is_counted: bool = True, is_transient: bool = False) -> Progress:
    """Return a bar with the time passed, the time left and a description; a context manager.

    `is_counted` shows how many of how many are done, otherwise a percentage. `is_transient` leaves nothing of it behind.
    """
    done: ProgressColumn = MofNCompleteColumn() if is_counted else TaskProgressColumn()
    return Progress(
        BarColumn(bar_width=24),
        done,
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=screen,
        # Drawing takes a core from what is being measured; once a second is enough for a person.
        refresh_per_second=1,
        transient=is_transient,
        disable=not screen.is_terminal,
    )
