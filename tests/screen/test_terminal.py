"""Tables in a terminal: as they are where they fit, a block per row where they do not, and every cell whole."""

from __future__ import annotations

import io

import pytest
import synthetic
import throughput_runs
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from normbench.cli.show import table_of
from normbench.report.console import summary_table
from normbench.screen.terminal import FittingTable, console

CASE = "op/rms_norm/forward/8192x4096/bfloat16/w-float32/eps-1e-05"
ROW = (CASE, "0.952 (0.761\u20131.04)", "x / sqrt(mean(x\u00b2) + eps)", "slower")
HEADER = ("case", "time, B / A", "convention", "verdict")
"""As wide as a row of a comparison is: over 80 columns."""


def shown(what: RenderableType, width: int) -> str:
    paper = Console(width=width, file=io.StringIO(), highlight=False)
    paper.print(what)
    return paper.file.getvalue()


def plain_table(header, rows) -> Table:
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table


def test_what_is_no_terminal_is_as_wide_as_is_asked_for_or_as_columns_say(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert (console().width, console(400).width) == (200, 400)
    monkeypatch.setenv("COLUMNS", "90")
    assert (console().width, console(400).width) == (90, 400)


@pytest.mark.parametrize("width", [150, 200])
def test_a_table_that_fits_is_what_rich_makes_of_it(width):
    assert shown(table_of(HEADER, [ROW, ROW]), width) == shown(plain_table(HEADER, [ROW, ROW]), width)


def test_a_row_without_room_is_a_block_under_its_key():
    other = (CASE.replace("forward", "backward"), *ROW[1:])
    assert [line.rstrip() for line in shown(table_of(HEADER, [ROW, other]), 80).splitlines()] == [
        CASE,
        f"time, B / A  {ROW[1]}",
        f"convention   {ROW[2]}",
        "verdict      slower",
        "",
        other[0],
        f"time, B / A  {ROW[1]}",
        f"convention   {ROW[2]}",
        "verdict      slower",
        "",
    ]


def test_a_cell_without_room_beside_its_column_stands_below():
    lines = shown(table_of(("row", "the reason of the verdict", "case"), [("1", "slower", CASE)]), 70).splitlines()
    assert [line.rstrip() for line in lines] == ["1", "the reason of the verdict  slower", "case", f"  {CASE}", ""]


def test_sentences_and_headers_are_wrapped_between_words_before_a_table_is_given_up():
    sentence = "what was published of training with Adam at this rate cannot be told apart from what was found here"
    text = shown(table_of(("claim", "the smallest change found", "why"), [("speed-up", "0.9 (0.8\u20131.0)", sentence)]), 80)
    assert text.splitlines()[0].split() == ["claim", "the", "smallest", "change", "found", "why"]
    assert "0.9 (0.8\u20131.0)" in text
    assert " ".join(text.split()).endswith("here")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert all(word in text.split() for word in sentence.split()), "no word is broken"


def test_columns_that_tell_rows_apart_are_their_key():
    rows = [("layer_norm", "aten", CASE, "12 [10, 14]"), ("layer_norm", "eager", CASE, "13 [10, 16]")]
    lines = [line.rstrip() for line in shown(table_of(("norm", "provider", "case", "tokens/s"), rows), 70).splitlines()]
    assert [lines[0], lines[4]] == ["layer_norm, aten", "layer_norm, eager"]


def test_columns_of_figures_are_no_key():
    table = FittingTable("module", box=None)
    table.add_column("calls", justify="right")
    for calls in ("1", "2"):
        table.add_row("norm " * 6, calls)
    assert shown(table, 20).count("calls") == 2


def test_title_and_caption_stand_above_the_blocks_and_markup_is_none():
    table = FittingTable("a", "b", title="network", caption="ms per call")
    table.add_row(Text("pip install normbench[report]"), Text("1.23 (1.19\u20131.27)"))
    lines = [line.rstrip() for line in shown(table, 40).splitlines()]
    assert lines == ["network", "ms per call", "", "pip install normbench[report]", "b  1.23 (1.19\u20131.27)", ""]


def cells_of(table: Table) -> list[str]:
    return [cell.plain if isinstance(cell, Text) else str(cell) for column in table.columns for cell in column.cells]


TIMES = {(norm, provider): 1.234e-3 for norm in ("layer_norm", "rms_norm") for provider in ("aten", "eager")}
RUNS = {
    "op": synthetic.full_run().records,
    "model": synthetic.network("forward_backward", times=TIMES, without=1e-3),
    "throughput": throughput_runs.whole_run(),
    "several processes": throughput_runs.together(),
}


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("tier", RUNS)
def test_no_cell_of_a_summary_is_cut_or_broken(tier, width):
    summary = summary_table(synthetic.run(RUNS[tier]))
    tables = [part for part in summary.renderables if isinstance(part, Table)]
    assert tables
    for table in tables:
        lines = shown(table, width).splitlines()
        assert all(any(cell in line for line in lines) for cell in cells_of(table))
