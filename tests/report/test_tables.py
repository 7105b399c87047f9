"""Tables: no empty cell, bold only what was won, ratios only side by side."""

from __future__ import annotations

import re

import msgspec
import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.conditions import Cache, Conditions
from normbench.cases.definition import Definition
from normbench.records.record import Departure, Status
from normbench.report.tables import accuracy_table, allocation_table, bandwidth_table, by_scope, fastest, memory_table, time_table
from normbench.results.derived import derive_results

CASE = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")


def only(records):
    (grid,) = by_scope(derive_results(records))
    return grid


def cells(table):
    """Return {shape: {column: cell}}."""
    return {row[0]: dict(zip(table.header[1:], row[1:], strict=True)) for row in table.rows}


def test_scopes_keep_apart_what_must_not_be_compared():
    cases = [
        CASE,
        Case.make("rms_norm", "forward", (8, 256, 1024), "bfloat16"),
        Case.make("rms_norm", "backward", (8, 256, 1024), "float32"),
        Case.make("rms_norm", "forward", (8, 256, 1024), "float32", residual=True),
        Case.make("rms_norm", "forward", (8, 256, 1024), "float32", weight=False),
    ]
    records = [one for case in cases for one in synthetic.group(case)]
    records += synthetic.group(CASE, conditions=Conditions(device="cpu", threads=1))
    grids = by_scope(derive_results(records))
    assert len(grids) == len({grid.scope.title + grid.scope.circumstances for grid in grids}) == 6


def test_shapes_go_by_size_and_built_in_providers_come_first():
    records = [
        one for case in synthetic.cases(["rms_norm"], ["forward"]) for one in synthetic.group(case, ("mine", "triton", "compile", "aten"))
    ]
    grid = only(list(reversed(records)))
    assert grid.providers == ("aten", "compile", "triton", "mine")
    assert grid.shapes == synthetic.SHAPES


def test_time_cell_has_time_interval_and_speedup():
    unit, table = time_table(only(synthetic.group(CASE, eager=8e-3, aten=4e-3, compile=2e-3)))
    row = cells(table)["8x256x1024"]
    assert unit == "ms"
    assert row["compile"].startswith("**")
    assert "<br>2.0" in row["compile"]
    assert row["aten"].endswith("<br>baseline")
    assert "**" not in row["aten"] + row["eager"]


def test_tie_is_bold_on_both_sides_and_marked():
    grid = only(synthetic.group(CASE, aten=2e-3, compile=2e-3, eager=9e-3))
    assert sorted(fastest(grid.row(CASE.shape))) == ["aten", "compile"]
    row = cells(time_table(grid)[1])["8x256x1024"]
    assert row["aten"].startswith("**")
    assert row["compile"].startswith("**")
    assert row["compile"].endswith("≈")
    assert not row["eager"].startswith("**")


def test_one_provider_alone_wins_nothing():
    grid = only(synthetic.group(CASE, ["compile"]))
    assert fastest(grid.row(CASE.shape)) == []
    assert cells(time_table(grid)[1])["8x256x1024"]["compile"].endswith("<br>aten was not measured")


def test_other_groups_are_not_side_by_side():
    records = [synthetic.record(CASE, "aten"), synthetic.record(CASE, "compile", group="later")]
    grid = only(records)
    assert fastest(grid.row(CASE.shape)) == []
    assert cells(time_table(grid)[1])["8x256x1024"]["compile"].endswith("<br>not side by side")


def test_single_repetition_has_no_interval_and_says_so():
    one = {name: synthetic.measurement(1e-3, processes=1, repetitions=1, name=name) for name in ("aten", "compile")}
    grid = only([synthetic.record(CASE, name, measurement=taken) for name, taken in one.items()])
    assert "(no interval)" in cells(time_table(grid)[1])["8x256x1024"]["compile"]


def test_single_measurement_makes_no_winner():
    times = {"aten": 1.00e-5, "compile": 0.99e-5}
    taken = {name: synthetic.measurement(time_s, processes=1, repetitions=1, name=name) for name, time_s in times.items()}
    grid = only([synthetic.record(CASE, name, measurement=one) for name, one in taken.items()])
    assert sorted(fastest(grid.row(CASE.shape))) == ["aten", "compile"]


def test_providers_that_were_measured_differently_often_have_no_winner():
    taken = {name: synthetic.measurement(1e-3, processes=count, name=name) for name, count in (("aten", 5), ("compile", 4))}
    grid = only([synthetic.record(CASE, name, measurement=one) for name, one in taken.items()])
    assert sorted(fastest(grid.row(CASE.shape))) == ["aten", "compile"]


@pytest.mark.parametrize("status", [status for status in Status if not status.is_measured])
def test_every_table_shows_the_status_of_what_was_not_measured(status):
    grid = only([*synthetic.group(CASE), synthetic.record(CASE, "triton", status=status, reason="why")])
    tables = [time_table(grid)[1], bandwidth_table(grid, None), accuracy_table(grid), memory_table(grid), allocation_table(grid)]
    assert {cells(table)["8x256x1024"]["triton"] for table in tables} == {status.value}


def test_case_that_one_provider_was_not_asked_for_is_a_dash():
    other = Case.make("rms_norm", "forward", (4, 128, 512), "float32")
    grid = only([*synthetic.group(CASE), *synthetic.group(other, ["aten"])])
    assert cells(time_table(grid)[1])["4x128x512"]["compile"] == "\u2013"


def test_bandwidth_cell_has_share_of_copy():
    grid = only(synthetic.group(CASE, aten=4e-3, compile=2e-3, copy=2e-3))
    row = cells(bandwidth_table(grid, None))["8x256x1024"]
    assert row["aten"].endswith("(50 %)")
    assert row["bytes moved"] == "16.0 MiB"
    assert float(row["copy, GB/s"]) == pytest.approx(8.4, abs=0.5)


@pytest.mark.parametrize("cache", Cache)
def test_peak_of_memory_limits_what_is_read_from_a_cold_cache_alone(cache):
    conditions = msgspec.structs.replace(synthetic.CPU, cache=cache)
    grid = only(synthetic.group(CASE, conditions=conditions, aten=4e-3, compile=2e-3, copy=2e-3))
    cell = cells(bandwidth_table(grid, 6.0))["8x256x1024"]["compile"]
    if cache is Cache.COLD:
        assert re.fullmatch(r"\*\*error\*\*: 8\.\d+ is above the peak of 6\.0+", cell)
    else:
        assert re.fullmatch(r"8\.\d+ \(100 %\)", cell)


def test_empty_case_says_empty():
    grid = only(synthetic.group(Case.make("rms_norm", "forward", (0, 8), "float32"), ["aten"]) + synthetic.group(CASE, ["aten"]))
    row = cells(bandwidth_table(grid, None))["0x8"]
    assert row["aten"] == row["copy, GB/s"] == "empty"
    assert "empty" in cells(time_table(grid)[1])["0x8"]["aten"]


def test_wrong_result_shows_its_error():
    wrong = synthetic.record(CASE, "mine", status=Status.WRONG, reason="dx is off", accuracy=(synthetic.accuracy(error=3.1, tensor="dx"),))
    lost = synthetic.record(CASE, "lost", status=Status.WRONG, reason="nan", accuracy=(synthetic.accuracy(error=None),))
    row = cells(accuracy_table(only([wrong, lost])))["8x256x1024"]
    assert row["mine"] == "wrong: 3.1 (dx, 2.0 ulp)"
    assert row["lost"].startswith("wrong: not finite (y")


def departing(definition, **times):
    """Return a group in which `guide`, the fastest, computes another definition."""
    departure = Departure(definition=definition, accuracy=(synthetic.accuracy(),))
    return only([synthetic.record(CASE, "guide", departure=departure, time_s=1e-3), *synthetic.group(CASE, ("aten", "compile"), **times)])


def test_another_function_wins_nothing_and_is_labelled_in_every_table():
    grid = departing(Definition.EPS_OUTSIDE_ROOT, aten=4e-3, compile=2e-3)
    assert fastest(grid.row(CASE.shape)) == ["compile"]
    for table in (time_table(grid)[1], accuracy_table(grid), memory_table(grid)):
        assert table.header[1:4] == ["aten", "compile", "guide (another formula)"]
    cell = cells(time_table(grid)[1])["8x256x1024"]["guide (another formula)"]
    assert cell.endswith("<br>another formula")
    assert "**" not in cell


def test_what_only_rounds_elsewhere_is_a_provider_like_others():
    grid = departing(Definition.UNROUNDED_SUM, aten=4e-3, compile=2e-3)
    assert fastest(grid.row(CASE.shape)) == ["guide"]
    assert time_table(grid)[1].header[3] == "guide"
