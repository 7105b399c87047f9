"""What is shown of long work: where there is a terminal, and as it is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from normbench.screen.bar import counting, make_bar, make_screen


def drawn(**options) -> str:
    """Return a bar with a task on it as a terminal shows it."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    with make_bar(screen, **options) as bar:
        bar.add_task("a[b] of [bold]", total=4, completed=1)
    return screen.file.getvalue()


def test_a_name_is_no_markup(capsys):
    make_screen().print("[bold] is :x: and 3")
    assert capsys.readouterr().err == "[bold] is :x: and 3\n"
    assert "a[b] of [bold]" in drawn()


@pytest.mark.parametrize(
    ("options", "shown", "unknown"),
    [({}, "1/4", "%"), ({"is_counted": False}, "25%", "1/4"), ({"budget_s": 30.0}, "of at most 30 s", "left")],
)
def test_a_bar_counts_or_tells_a_share_or_what_it_may_take(options, shown, unknown):
    text = drawn(**options)
    assert shown in text
    assert unknown not in text


def test_nothing_is_drawn_where_there_is_no_terminal(capsys):
    with counting() as observe:
        observe(1, 2, "a case")
    assert capsys.readouterr() == ("", "")
