"""The table puts what asks for something to be done on top, and says where the figures come from."""

import re

import synthetic

from normbench.cases.conditions import Conditions
from normbench.comparison.outcome import compare_runs
from normbench.comparison.table import columns, lines_below, markdown, rows
from normbench.quantities.units import DASH
from normbench.records.record import Status

from . import sides
from .sides import A, B, records

CASE, OTHER = sides.CASES[:2]


def mixed():
    """Return a comparison with a row of each urgency: wrong, missing, slower, not measured, and those without a change."""
    before = [*records(A), synthetic.record(CASE, "triton", status=Status.SKIPPED, reason="no GPU")]
    after = [one for one in records(B, times={"eager": 1.8}) if (one.case_id, one.provider) not in {(CASE.id, "eager"), (OTHER.id, "aten")}]
    after += [synthetic.record(CASE, "eager", status=Status.WRONG, reason="y is off by 2 | more\nthan 1")]
    after += [synthetic.record(CASE, "triton", status=Status.SKIPPED, reason="no GPU")]
    return compare_runs(sides.run(before), sides.run(after))


def test_most_urgent_rows_come_first():
    verdicts = [row[4].partition(":")[0] for row in rows(mixed())]
    assert verdicts == sorted(verdicts, key=["slower", "wrong", "missing", "inconclusive", "no difference seen"].index)
    assert {"slower", "wrong", "missing"} <= set(verdicts)


def test_a_row_has_both_ratios_with_intervals_and_the_reason():
    found = mixed()
    assert columns(found) == ("row", "A", "time, B / A", "time over copy, B / A", "verdict", "smallest change found")
    slower = next(row for row in rows(found) if row[4] == "slower")
    assert slower[0].endswith("/float32#eager")
    assert all(re.fullmatch(rf"\d\.\d{{3}} \(\d\.\d{{3}}{DASH}\d\.\d{{3}}\)", cell) for cell in slower[2:4])
    assert re.fullmatch(r"[\d.]+ %", slower[5])
    wrong = next(row for row in rows(found) if row[4].startswith("wrong"))
    assert wrong[2:] == (DASH, DASH, "wrong: B: y is off by 2 | more\nthan 1", DASH)


def test_conditions_stand_in_the_name_only_where_rows_differ_in_them():
    one = compare_runs(sides.run(records(A)), sides.run(records(B)))
    assert all("@" not in row[0] for row in rows(one))
    threads = Conditions(device="cpu", threads=1)
    both = [[*records(seed), *records(seed, conditions=threads)] for seed in (A, B)]
    assert {row[0].partition("@")[2].partition("#")[0] for row in rows(compare_runs(*map(sides.run, both)))} == {
        "cpu/2t/warm/reused",
        "cpu/1t/warm/reused",
    }


def test_lines_below_name_the_runs_the_controls_and_what_is_left_out():
    text = "\n".join(lines_below(mixed()))
    assert "A: 20261130-205008-seed, taken 2026-11-30T20:50:08+00:00, commit 0123456789ab" in text
    assert re.search(r"Controls of the op tier, which no change touches, took \d\.\d{3} times as long in B as in A over all", text)
    assert "(6 cases)" in text
    assert "Left out: triton, 1 row: skipped in both: no GPU" in text
    assert "Intervals hold for all rows together with 95 %" in text


def test_lines_below_say_what_was_allowed_to_differ_and_which_run_is_not_complete():
    before, after = sides.run(records(A)), sides.run(records(B), versions={"torch": "2.14.0"}, planned=50)
    text = "\n".join(lines_below(compare_runs(before, after, across=["torch"])))
    assert "Allowed to differ: torch 2.13.0 against 2.14.0." in text
    assert "not complete: it holds 12 of 50 planned records and was not finished" in text


def test_without_controls_it_is_said():
    without = [sides.run([one for one in records(seed) if one.role.value == "provider"]) for seed in (A, B)]
    assert "how far apart two runs of the same code may be is not known" in "\n".join(lines_below(compare_runs(*without)))


def test_markdown_has_the_sentence_every_row_and_one_line_each():
    found = mixed()
    text = markdown(found)
    assert text.startswith(f"**{found.sentence}**\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(rows(found))
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 7 for line in table)


def test_markdown_of_nothing_is_still_a_sentence():
    assert markdown(compare_runs(sides.run([]), sides.run([]))).startswith("**Run A is not complete (it is empty)")
