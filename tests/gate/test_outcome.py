"""Verdicts become one exit code and one sentence, and nothing that was not compared can make it green."""

from __future__ import annotations

import json
import math

import pytest

from normbench.cases.metric import Better
from normbench.gate.decide import Decision, Verdict
from normbench.gate.outcome import CaseResult, Code, ExitCode, RunEnd, Sameness, conclude, to_json
from normbench.gate.policy import Policy

POLICY = Policy()
COMPARED = (Verdict.PASS, Verdict.REGRESSION, Verdict.IMPROVEMENT)


def result(case: str, verdict: Verdict, ratio: float | None = None, **fields) -> CaseResult:
    known = {"ratio": ratio or 1.0, "smallest_detectable": 0.021} if verdict in COMPARED else {}
    return CaseResult(case=case, decision=Decision(verdict=verdict, reason="why", **(known | fields)))


def code(*verdicts: Verdict, controls=(), **given_) -> ExitCode:
    cases = [result(f"case {number}", verdict) for number, verdict in enumerate(verdicts)]
    moved = [result(f"control {number}", verdict) for number, verdict in enumerate(controls)]
    return conclude(POLICY, cases, moved, **given_).exit_code


# Each verdict beside a case that passed: what it does to the run.
@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (Verdict.PASS, ExitCode.PASS),
        (Verdict.IMPROVEMENT, ExitCode.PASS),
        (Verdict.NOT_GATEABLE, ExitCode.PASS),
        (Verdict.NEW, ExitCode.PASS),
        (Verdict.REGRESSION, ExitCode.REGRESSION),
        (Verdict.WRONG, ExitCode.REGRESSION),
        (Verdict.FAILED, ExitCode.REGRESSION),
        (Verdict.MISSING, ExitCode.MISSING),
        (Verdict.NOT_COMPARABLE, ExitCode.INVALID),
        (Verdict.UNDECIDED, ExitCode.INVALID),
    ],
)
def test_verdict_beside_a_pass(verdict, expected):
    assert code(Verdict.PASS, verdict) == expected


def test_every_verdict_has_its_line_above():
    mark = test_verdict_beside_a_pass.pytestmark[0]
    assert {verdict for verdict, _ in mark.args[1]} == set(Verdict)


# B03: a run that compared nothing is no pass, whatever else it holds.
@pytest.mark.parametrize("verdicts", [(), (Verdict.NEW,), (Verdict.NOT_GATEABLE,), (Verdict.NEW, Verdict.NOT_GATEABLE)])
def test_nothing_compared_is_no_pass(verdicts):
    assert code(*verdicts) == ExitCode.INVALID


def test_case_missing_in_head_fails_unless_allowed():
    # B03: base has a and b, head has a.
    cases = [result("a", Verdict.PASS), result("b", Verdict.MISSING)]
    failed = conclude(POLICY, cases)
    assert failed.exit_code == ExitCode.MISSING
    assert failed.sentence == "Missing: base has 1 case that head has not: b; put them back or allow them to be missing."
    allowed = conclude(POLICY, cases, allowed_missing=["b"])
    assert allowed.exit_code == ExitCode.PASS
    assert allowed.sentence.endswith("1 case is missing in head, as allowed: b.")


def test_allowing_one_does_not_allow_another_nor_a_run_of_none():
    assert conclude(POLICY, [result("a", Verdict.PASS), result("b", Verdict.MISSING)], allowed_missing=["c"]).exit_code == ExitCode.MISSING
    assert conclude(POLICY, [result("b", Verdict.MISSING)], allowed_missing=["b"]).exit_code == ExitCode.INVALID


# What is worse comes first.
@pytest.mark.parametrize(
    ("verdicts", "controls", "expected"),
    [
        ((Verdict.WRONG, Verdict.MISSING), (Verdict.REGRESSION,), ExitCode.REGRESSION),
        ((Verdict.REGRESSION,), (Verdict.REGRESSION,), ExitCode.INVALID),
        ((Verdict.PASS,), (Verdict.IMPROVEMENT,), ExitCode.INVALID),
        ((Verdict.REGRESSION, Verdict.MISSING, Verdict.UNDECIDED), (), ExitCode.REGRESSION),
        ((Verdict.MISSING, Verdict.UNDECIDED), (), ExitCode.MISSING),
        ((Verdict.PASS,), (Verdict.FAILED,), ExitCode.INVALID),
        ((Verdict.PASS,), (Verdict.UNDECIDED,), ExitCode.INVALID),
        ((Verdict.PASS,), (Verdict.NOT_GATEABLE, Verdict.PASS), ExitCode.PASS),
    ],
)
def test_order_of_faults(verdicts, controls, expected):
    assert code(*verdicts, controls=controls) == expected


def test_interrupted_run_is_no_pass_but_a_regression_stays_one():
    assert code(Verdict.PASS, end=RunEnd.INTERRUPTED) == ExitCode.INVALID
    assert code(Verdict.PASS, Verdict.REGRESSION, end=RunEnd.INTERRUPTED) == ExitCode.REGRESSION


def test_sentence_of_a_pass():
    outcome = conclude(POLICY, [result("a", Verdict.PASS), result("b", Verdict.PASS, smallest_detectable=0.035)])
    assert (
        outcome.sentence == "Pass: none of 2 cases got worse by more than 2 %; a slow-down of 3.5 % would have been found in any of them."
    )


def test_sentence_of_a_regression_names_the_worst_and_the_improvements():
    cases = [result("a", Verdict.REGRESSION, 1.03), result("b", Verdict.REGRESSION, 1.2), result("c", Verdict.IMPROVEMENT, 0.9)]
    assert conclude(POLICY, cases).sentence == (
        "Regression: 2 cases got worse, most of all b (1.200 times base); also a. 1 case got better, most of all c (0.900 times base)."
    )


def test_worst_of_rates_is_the_lowest():
    cases = [result("a", Verdict.REGRESSION, 0.97, better=Better.MORE), result("b", Verdict.REGRESSION, 0.5, better=Better.MORE)]
    assert "most of all b (0.500 times base)" in conclude(POLICY, cases).sentence


def test_long_lists_are_cut():
    outcome = conclude(POLICY, [result(f"case{number}", Verdict.WRONG) for number in range(5)])
    assert outcome.sentence == "Fail: 5 cases in head are wrong or did not run: case0, case1, case2 and 2 more."


def test_sentence_of_moved_controls_says_what_to_do():
    outcome = conclude(POLICY, [result("a", Verdict.REGRESSION)], [result("copy", Verdict.REGRESSION)])
    assert outcome.sentence == (
        "Invalid: 1 control that neither side can change moved (copy), so the machine changed under the run; run it again."
    )


def test_sentence_tells_of_noise_new_cases_and_loud_controls():
    cases = [result("a", Verdict.PASS), result("b", Verdict.NOT_GATEABLE), result("c", Verdict.NEW)]
    outcome = conclude(POLICY, cases, [result("copy", Verdict.NOT_GATEABLE)])
    assert "1 case was too noisy to be gated: b." in outcome.sentence
    assert "1 case is new in head and had nothing to be compared with: c." in outcome.sentence
    assert "1 control was too noisy to vouch for the machine: copy." in outcome.sentence


def test_sentence_of_an_unfinished_run_names_what_is_left():
    assert conclude(POLICY, [result("a", Verdict.UNDECIDED)]).sentence == "Invalid: the run ended before 1 case was decided: a."
    assert (
        conclude(POLICY, [result("a", Verdict.PASS)], end=RunEnd.INTERRUPTED).sentence == "Invalid: the run ended before it was complete."
    )


def test_sentence_of_what_cannot_be_compared_says_why():
    assert conclude(POLICY, [result("a", Verdict.NOT_COMPARABLE)]).sentence == "Invalid: 1 case could not be compared: a (why)."


def test_json_is_strict_and_complete():
    outcome = conclude(POLICY, [result("a", Verdict.PASS), result("b", Verdict.NEW)], notes=["both sides are the same code"])
    text = to_json(outcome)
    read = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert read["exit_code"] == 0
    assert read["sentence"] == outcome.sentence
    assert read["notes"] == ["both sides are the same code"]
    assert [case["decision"]["verdict"] for case in read["cases"]] == ["pass", "new"]
    assert read["cases"][1]["decision"]["ratio"] is None
    assert read["policy"]["looks"] == list(POLICY.looks)
    assert text.endswith(b"}\n")


def test_what_is_no_number_becomes_null():
    assert json.loads(to_json(conclude(POLICY, [result("a", Verdict.PASS, p=math.nan)])))["cases"][0]["decision"]["p"] is None


def test_a_case_that_is_the_same_program_in_both_arms_is_named_and_blamed_on_nothing_in_them():
    same, other = Code(text="both arms are the same code", same=Sameness.FILES), Code(text="the arms differ in a.py")
    cases = [
        CaseResult(case=name, decision=Decision(verdict=Verdict.REGRESSION, reason="why", ratio=1.1), code=code)
        for name, code in (("untouched", same), ("touched", other), ("unknown", None))
    ]
    outcome = conclude(POLICY, cases, notes=["a note"])
    assert outcome.exit_code is ExitCode.REGRESSION
    assert outcome.sentence.endswith(
        "The code of untouched is the same in both arms, so the cause is elsewhere: a shared library or the machine."
    )
    assert outcome.notes == ("a note", "both arms are the same program in 1 of 3 cases: untouched")
    assert json.loads(to_json(outcome))["cases"][0]["code"] == {"text": "both arms are the same code", "same": "files"}
