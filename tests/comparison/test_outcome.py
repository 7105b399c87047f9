"""Two runs become one sentence, an exit code and strict JSON; nothing is red on its own, and nothing that was not compared is green."""

import json

import msgspec
import pytest
import synthetic

from normbench.cases.conditions import Conditions
from normbench.comparison.difference import Verdict
from normbench.comparison.outcome import compare_runs, to_json
from normbench.errors import UsageError
from normbench.gate.outcome import ExitCode
from normbench.records.record import Status
from normbench.storage.stored_run import RunStatus

from . import sides
from .sides import A, B, changed, records

CASE = sides.CASES[0]
SLOWER = {"eager": 1.6}
WIDE = 0.5
"""A share that these made-up runs can tell: processes differ by 3 % in each."""


def compared(before, after, *, fail_on=None, status=RunStatus.COMPLETE, **fields):
    return compare_runs(sides.run(before), sides.run(after, status=status), fail_on=fail_on, **fields)


def without(found, provider, case=None):
    return [one for one in found if one.provider != provider or (case is not None and one.case_id != case.id)]


def broken(found, status):
    """Return the records with eager's of one case ended otherwise."""
    return [*without(found, "eager", CASE), synthetic.record(CASE, "eager", status=status, reason="why")]


OTHER_THREADS = Conditions(device="cpu", threads=1)
FINDINGS = {
    "same": (records(A), records(B)),
    "slower": (records(A), records(B, times=SLOWER)),
    "faster": (records(A, times=SLOWER), records(B)),
    "missing": (records(A), without(records(B), "eager", CASE)),
    "new": (without(records(A), "eager", CASE), records(B)),
    "wrong": (records(A), broken(records(B), Status.WRONG)),
    "failed": (records(A), broken(records(B), Status.ERROR)),
    "other threads": (records(A), records(B, conditions=OTHER_THREADS)),
    "empty": ([], []),
    "empty before": ([], records(B)),
    "empty after": (records(A), []),
    "noisy": (records(A, noise=0.5, processes=4), records(B, noise=0.5, processes=4)),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_nothing_is_red_on_its_own(name):
    found = compared(*FINDINGS[name])
    assert found.exit_code is ExitCode.PASS
    assert not found.sentence.startswith(("Pass", "Fail"))


@pytest.mark.parametrize(
    ("name", "expected", "start"),
    [
        ("same", ExitCode.PASS, "Pass: of 12 rows that can tell, B is slower than A by more than 50 % in none."),
        ("faster", ExitCode.PASS, "Pass: "),
        ("new", ExitCode.PASS, "Pass: of 11 rows"),
        ("slower", ExitCode.PASS, "Pass: of 6 rows that can tell"),
        # B03: a case that is gone, or a comparison of nothing, is never green.
        ("missing", ExitCode.MISSING, f"Fail: 1 row of A is missing in B: {CASE.id}#eager."),
        ("empty", ExitCode.INVALID, "Invalid: run A is not complete (it is empty)"),
        ("empty before", ExitCode.INVALID, "Invalid: run A is not complete (it is empty)"),
        ("empty after", ExitCode.INVALID, "Invalid: run B is not complete (it is empty)"),
        ("wrong", ExitCode.REGRESSION, f"Fail: 1 row is wrong in B, or did not run: {CASE.id}#eager."),
        ("failed", ExitCode.REGRESSION, "Fail: 1 row is wrong in B, or did not run"),
        ("other threads", ExitCode.INVALID, "Invalid: 12 rows cannot be compared: "),
        ("noisy", ExitCode.INVALID, "Invalid: whether B is slower than A by more than 50 % cannot be told in any of 12 rows."),
    ],
)
def test_exit_code_and_first_sentence_with_fail_on(name, expected, start):
    found = compared(*FINDINGS[name], fail_on=WIDE)
    assert found.exit_code is expected
    assert found.sentence.startswith(start)


def test_a_row_fails_only_with_its_whole_interval_beyond():
    twice = records(B, times={"eager": 2.2})
    assert compared(records(A), twice, fail_on=0.2).exit_code is ExitCode.REGRESSION
    # The slower rows are about there, and the others show that nothing happened to them.
    found = compared(records(A), twice, fail_on=1.1)
    assert (found.exit_code, len(found.having(Verdict.SLOWER))) == (ExitCode.PASS, len(sides.CASES))
    assert found.sentence.startswith("Pass: of 6 rows that can tell")


def test_rows_that_are_slower_and_perhaps_by_so_much_are_no_pass():
    twice = records(B, providers=["eager"], times={"eager": 2.2})
    found = compared(records(A, providers=["eager"]), twice, fail_on=1.2)
    assert (found.exit_code, len(found.having(Verdict.SLOWER))) == (ExitCode.INVALID, len(sides.CASES))
    assert found.sentence.startswith("Invalid: whether B is slower than A by more than 120 % cannot be told in any of 6 rows.")
    assert compared(records(A, providers=["eager"]), twice, fail_on=2.5).exit_code is ExitCode.PASS


def test_what_is_wrong_comes_before_what_is_slower_and_that_before_what_is_missing():
    slow = records(B, times={"aten": 2.2})
    assert "wrong in B" in compared(records(A), broken(slow, Status.WRONG), fail_on=0.2).sentence.partition(".")[0]
    found = compared(records(A), without(slow, "eager", CASE), fail_on=0.2)
    assert found.exit_code is ExitCode.REGRESSION
    assert "1 row of A is missing in B" in found.sentence


# Invariant: what was interrupted, is empty or partial can never pass, and says so.
@pytest.mark.parametrize("name", [name for name in FINDINGS if not name.startswith("empty")])
def test_a_run_that_is_not_complete_is_shown_and_never_passes(name):
    shown = compared(*FINDINGS[name], status=RunStatus.INCOMPLETE)
    assert shown.exit_code is ExitCode.PASS
    assert shown.sentence.startswith("Run B is not complete (it holds ")
    assert "it is no basis for a decision" in shown.sentence
    assert compared(*FINDINGS[name], status=RunStatus.INCOMPLETE, fail_on=WIDE).exit_code is ExitCode.INVALID


def test_a_run_that_lacks_planned_records_is_not_complete():
    partial = sides.run(records(B), planned=99)
    found = compare_runs(sides.run(records(A)), partial, fail_on=WIDE)
    assert found.exit_code is ExitCode.INVALID
    assert "run B is not complete (it holds 12 of 99 planned records and was not finished)" in found.sentence


def test_sentences_name_what_a_person_acts_on_first():
    slower = compared(*FINDINGS["slower"])
    assert slower.sentence.startswith("Slower: B is slower than A in 6 of 12 rows, most of all op/rms_norm/forward/")
    assert "times A); also" in slower.sentence
    assert compared(*FINDINGS["missing"]).sentence.startswith("Missing: 1 row of A is missing in B")
    assert compared(*FINDINGS["faster"]).sentence.startswith("Faster: B is faster than A in 6 of 12 rows")
    assert "and `normbench gate`" not in slower.sentence
    assert "`normbench gate` runs both side by side" in compared(*FINDINGS["noisy"]).sentence
    other = compared(*FINDINGS["other threads"])
    assert "(threads 2 against 1)" in other.sentence
    assert other.sentence.endswith("Nothing was measured in both runs under the same conditions.")
    assert compared([], []).sentence.endswith("Nothing compared: nothing was measured in both runs under the same conditions.")


def test_no_sentence_is_said_twice():
    for name, (before, after) in FINDINGS.items():
        for fail_on in (None, WIDE):
            said = [part.strip() for part in compared(before, after, fail_on=fail_on).sentence.split(". ")]
            assert len(said) == len(set(said)), name


def test_what_differs_is_refused_and_allowed_by_name():
    before, after = sides.run(records(A)), sides.run(records(B), versions={"torch": "2.14.0"})
    with pytest.raises(UsageError, match=r"torch 2.13.0 against 2.14.0\. .* --across torch"):
        compare_runs(before, after)
    found = compare_runs(before, after, across=["torch"])
    assert [one.text for one in found.across] == ["torch 2.13.0 against 2.14.0"]
    assert len(found.rows) == 12
    threads = compared(*FINDINGS["other threads"], across=["threads"])
    assert all(one.direct is not None for one in threads.rows)


def test_a_reference_that_a_run_has_not_is_refused():
    with pytest.raises(UsageError, match=r"--reference 'atem' is not in run A, .*; it has eager, aten, copy, allocate"):
        compared(*FINDINGS["same"], reference="atem")
    found = compared(*FINDINGS["slower"], reference="aten")
    assert {one.reference for one in found.rows if one.provider == "eager"} == {"aten"}


@pytest.mark.parametrize("name", FINDINGS)
def test_json_is_strict_and_has_every_row(name):
    found = compared(*FINDINGS[name])
    read = json.loads(to_json(found), parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))
    assert [row["verdict"] for row in read["rows"]] == [row.verdict.value for row in found.rows]
    assert (read["sentence"], read["exit_code"], read["schema_version"]) == (found.sentence, 0, 1)
    assert read["before"]["id"] == read["after"]["id"] == synthetic.info().id


# B19: whatever a broken timer gave, no NaN and no infinity comes out.
def test_json_of_times_that_are_none_holds_null():
    odd = changed(records(B), "eager", measurement=synthetic.constant(0.0))
    found = compared(records(A), odd, fail_on=WIDE)
    assert found.exit_code is ExitCode.INVALID
    rows = json.loads(to_json(found), parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))["rows"]
    assert {(row["direct"], row["after_s"]) for row in rows if row["provider"] == "eager"} == {(None, None)}


def test_rows_of_one_run_with_itself_show_no_change():
    found = compare_runs(sides.run(records(A)), sides.run(records(A)))
    assert all(one.direct.ratio == pytest.approx(1.0) for one in found.rows)
    assert not found.having(Verdict.SLOWER, Verdict.FASTER)


def test_records_without_turns_have_a_time_and_no_ratio_to_the_reference():
    apart = [msgspec.structs.replace(one, group=one.provider) for one in records(B)]
    found = compared(records(A), apart)
    assert all(one.relative is None and one.direct.low is not None for one in found.rows)
