"""The words of a gate's command line."""

import pytest

from normbench.errors import UsageError
from normbench.gate.process import CONTROL
from normbench.gate.words import candidates, cases_of, controls, seconds, share


@pytest.mark.parametrize(("text", "expected"), [("2%", 0.02), ("0.02", 0.02), (" 1.5 % ", 0.015), (".5%", 0.005), ("0", 0.0)])
def test_a_share_is_a_percentage_or_a_fraction(text, expected):
    assert share(text, "margin") == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "two", "-1%", "2%%", "nan", "1e-2"])
def test_what_is_no_share_is_refused_by_its_option(text):
    with pytest.raises(UsageError, match=r"--margin .* is not a share: give one such as 2%"):
        share(text, "margin")


@pytest.mark.parametrize(("text", "expected"), [("300", 300), ("90s", 90), ("5m", 300), ("1.5h", 5400)])
def test_a_time_is_seconds_or_has_a_unit(text, expected):
    assert seconds(text, "budget") == expected


@pytest.mark.parametrize("text", ["", "0", "0m", "-5m", "5 minutes", "inf"])
def test_what_is_no_time_is_refused_by_its_option(text):
    with pytest.raises(UsageError, match=r"--budget .* is not a time"):
        seconds(text, "budget")


def test_cases_are_ids_a_grid_or_shapes():
    ids = "op/rms_norm/forward/8x64/float32,op/rms_norm/forward/8x64/float32,op/layer_norm/backward/4x8/bfloat16"
    assert [case.id for case in cases_of(ids, passes=["forward"], dtypes=["float32"])] == list(dict.fromkeys(ids.split(",")))
    assert len(cases_of("quick", passes=["forward"], dtypes=["float32"])) == 3 * 2
    assert [case.shape for case in cases_of("2x3,4x5", norms=["rms_norm"], passes=["forward"], dtypes=["float32"])] == [(2, 3), (4, 5)]


def test_a_candidate_is_a_case_and_the_providers_of_both_sides():
    cases = cases_of("2x3", norms=["rms_norm"], passes=["forward"], dtypes=["float32"])
    same, other = candidates(cases, [("aten", "aten"), ("aten", "./k.py")])
    assert same.id == "op/rms_norm/forward/2x3/float32@aten"
    assert other.id == "op/rms_norm/forward/2x3/float32@aten:./k.py"
    assert other.arms == ("base aten", "head ./k.py")


@pytest.mark.parametrize("text", ["2x3,0x64", "op/rms_norm/forward/2x3/float32,op/rms_norm/forward/0x64/float32"])
def test_a_case_without_elements_is_refused_and_left_out_of_a_grid(text):
    choice = {"norms": ["rms_norm"], "passes": ["forward"], "dtypes": ["float32"]}
    with pytest.raises(UsageError, match="case op/rms_norm/forward/0x64/float32 is empty: there is nothing to time"):
        cases_of(text, **choice)
    odd = cases_of("odd", **choice)
    assert odd
    assert not any(case.is_empty for case in odd)


def test_controls_are_compared_with_themselves_and_have_their_name_to_themselves():
    assert all(control.is_control for control in controls())
    with pytest.raises(UsageError, match="own controls"):
        candidates([], [(CONTROL, CONTROL)])
