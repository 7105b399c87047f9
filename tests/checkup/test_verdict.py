"""Verdicts: what counts, what is a failure, and what is told of many."""

import json

import pytest

from normbench.cases.adversary import Trial, Values
from normbench.cases.case import Case
from normbench.checkup.verdict import Figures, Verdict, figures, norm_label, to_json, worst_entry
from normbench.records.record import Accuracy, Status

CASE = Case.make("rms_norm", "forward", (4, 8), "float32")


def entry(tensor="y", error=0.5, ulps=1.0, relative=1e-8, tolerance=1.0):
    return Accuracy(
        tensor=tensor,
        dtype="float32",
        error=error,
        tolerance=tolerance,
        max_abs=None if error is None else 1e-7,
        ulps=ulps,
        nonfinite=0,
        passed=True,
        relative=relative,
    )


def verdict(status=Status.OK, *accuracy, values=Values.NORMAL, **fields):
    return Verdict(
        provider="mine", case=CASE, trial=Trial(values=values), status=status, rows_checked=4, accuracy=tuple(accuracy), **fields
    )


@pytest.mark.parametrize(
    ("status", "judged", "failure"),
    [
        (Status.OK, True, False),
        (Status.WRONG, True, True),
        # What could not be checked is not known to be right.
        (Status.ERROR, True, True),
        (Status.OOM, True, True),
        (Status.UNSUPPORTED, False, False),
        (Status.SKIPPED, False, False),
    ],
)
def test_what_counts_and_what_fails(status, judged, failure):
    found = verdict(status, reason="why")
    assert (found.is_judged, found.is_failure, found.is_told_only) == (judged, failure, False)


@pytest.mark.parametrize(
    ("status", "told", "failure"),
    [
        (Status.WRONG, True, False),
        # Whoever is right even there is right, and a crash is a crash.
        (Status.OK, False, False),
        (Status.ERROR, False, True),
    ],
)
def test_past_float32_a_wrong_result_is_told_only(status, told, failure):
    found = verdict(status, reason="why", values=Values.OVERFLOW)
    assert (found.is_told_only, found.is_failure) == (told, failure)


def test_the_worst_tensor_is_the_one_nearest_to_its_limit():
    # The sum x + residual has no limit, it is right or wrong.
    found = verdict(Status.OK, entry("y", 0.5), entry("residual_out", 0.0, tolerance=0.0), entry("dx", 0.7), entry("dweight", None))
    assert worst_entry(found).tensor == "dx"
    assert worst_entry(verdict(Status.ERROR)) is None


def test_figures_are_the_largest_of_the_tensors_asked_for():
    some = [verdict(Status.OK, entry("y", ulps=2.0, relative=None), entry("dx", ulps=9.0)), verdict(Status.OK, entry("y", relative=3e-8))]
    assert figures(some, ("y",)) == Figures(ulps=2.0, relative=3e-8)
    assert figures(some, ("dbias",)) == Figures(ulps=None, relative=None)


def test_labels():
    assert verdict(values=Values.HUGE).label == "op/rms_norm/forward/4x8/float32 huge"
    assert verdict().label == CASE.id
    assert norm_label(CASE) == "rms_norm"
    assert norm_label(Case.make("rms_norm", "forward", (4, 8), "float32", residual=True, convention="llama")) == "rms_norm llama"


def test_json_is_strict_and_holds_the_case_by_its_id():
    found = verdict(Status.WRONG, entry(error=None, ulps=None, relative=None), reason="y is missing", values=Values.NAN, is_repeatable=True)
    read = json.loads(json.dumps(to_json(found), allow_nan=False))
    assert read["case"] == CASE.id
    assert (read["values"], read["layout"], read["status"], read["judged"], read["repeatable"]) == (
        "nan",
        "contiguous",
        "wrong",
        True,
        True,
    )
    assert (read["rows"], read["rows_checked"], read["in_interpreter"]) == (4, 4, False)
    assert read["accuracy"][0]["error"] is None
