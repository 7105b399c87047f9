"""From figures to one verdict: intervals and bands, contradiction, bounds, scope, and figures that must agree to the digit."""

from __future__ import annotations

import pytest

from normbench.claims.verdict import Bound, Measured, Value, Verdict, judge
from normbench.errors import NormbenchError

from .handmade import claim, measured

BOUND = Bound(name="saved_percent", most=5.0, text="norms take 5 % of the time")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (measured(15), Verdict.REPRODUCED),
        (measured(8, 5, 11), Verdict.REPRODUCED),
        (measured(8, 7, 9), Verdict.NOT_REPRODUCED),
        (measured(8), Verdict.NOT_REPRODUCED),
        (measured(-30, -40, -20), Verdict.OPPOSITE),
        (measured(-1, -4, 2), Verdict.NOT_REPRODUCED),
        (measured("NaN"), Verdict.NOT_REPRODUCED),
    ],
)
def test_interval_is_held_against_the_band(found, verdict):
    assert judge(claim(), found).verdict is verdict


def test_interval_that_holds_agreement_and_contradiction_tells_nothing():
    ruling = judge(claim(), measured(8, -30, 46))
    assert ruling.verdict is None
    assert ruling.reason == "cannot be told: saved_percent is 8 (-30 to 46), agrees and contradicts"
    assert judge(claim(opposite={}), measured(8, -30, 46)).verdict is Verdict.REPRODUCED


def over(**spans):
    """Return a saving of several cases, each with the middle of its interval as the estimate."""
    cases = {name: Value(estimate=sum(span) / 2, low=span[0], high=span[1]) for name, span in spans.items()}
    return Measured(values={"saved_percent": Value.over(cases)}, where="here")


@pytest.mark.parametrize(
    ("spans", "verdict"),
    [
        ({"prefill": (9, 12), "decode": (18, 22)}, Verdict.REPRODUCED),
        ({"prefill": (1, 3), "decode": (26, 30)}, Verdict.NOT_REPRODUCED),
        ({"prefill": (12, 14), "decode": (26, 30)}, Verdict.NOT_REPRODUCED),
        ({"prefill": (-9, -7), "decode": (12, 14)}, Verdict.NOT_REPRODUCED),
        ({"prefill": (-9, -7), "decode": (-30, -20)}, Verdict.OPPOSITE),
        ({"prefill": (-9, 15), "decode": (12, 14)}, None),
        ({"prefill": (-9, 15), "decode": (26, 30)}, Verdict.NOT_REPRODUCED),
    ],
)
def test_each_of_several_cases_must_agree_and_not_only_their_span(spans, verdict):
    assert judge(claim(), over(**spans)).verdict is verdict


def test_cases_that_are_off_are_named():
    reason = judge(claim(), over(prefill=(12, 14), decode=(26, 30), train=(26, 28))).reason
    assert reason == "saved_percent is 27 (12 to 30); not 10 to 20: decode 28 (26 to 30) and train 27 (26 to 28)"


def test_one_case_is_its_own_figure():
    alone = Value(estimate=2.0, low=1.0, high=3.0)
    assert Value.over({"train": alone}) == alone


def test_what_no_change_of_norm_can_reach_is_bounded_out():
    ruling = judge(claim(), measured(1, 0.5, 1.5, bounds=(BOUND,)))
    assert ruling.verdict is Verdict.BOUNDED_OUT
    assert ruling.reason == "norms take 5 % of the time"


def test_bound_that_leaves_room_says_nothing():
    roomy = Bound(name="saved_percent", most=12.0, text="norms take 12 %")
    assert judge(claim(), measured(11, bounds=(roomy,))).verdict is Verdict.REPRODUCED
    other = Bound(name="something else", most=1.0, text="-")
    assert judge(claim(), measured(11, bounds=(other,))).verdict is Verdict.REPRODUCED


def test_lower_bound_excludes_times_that_are_too_short():
    short = claim(published={"time_us": 100}, accept={"time_us": (50.0, 200.0)}, opposite={})
    bound = Bound(name="time_us", least=1000.0, text="memory is not that fast")
    assert judge(short, measured(1500, name="time_us", bounds=(bound,))).verdict is Verdict.BOUNDED_OUT


def test_contradiction_is_said_before_a_bound():
    ruling = judge(claim(), measured(-30, -40, -20, bounds=(BOUND,)))
    assert ruling.verdict is Verdict.OPPOSITE
    assert "norms take 5 %" in ruling.reason


def test_scope_that_is_not_here_is_said_whatever_was_found_nearby():
    ruling = judge(claim(), measured(15), unmet=["needs a GPU of 2019"])
    assert (ruling.verdict, ruling.reason) == (Verdict.OTHER_SCOPE, "needs a GPU of 2019")
    assert judge(claim(), measured(-30, -40, -20), unmet=["needs TensorFlow"]).verdict is Verdict.OTHER_SCOPE


def test_bound_holds_for_another_scope_too():
    assert judge(claim(), measured(1, bounds=(BOUND,)), unmet=["needs TensorFlow"]).verdict is Verdict.BOUNDED_OUT


def test_claim_that_was_not_measured_has_no_verdict_and_says_why():
    ruling = judge(claim(), None, waits="waits for a study")
    assert (ruling.verdict, ruling.reason) == (None, "waits for a study")
    assert judge(claim(), None, unmet=["needs data"], waits="waits").verdict is Verdict.OTHER_SCOPE


def exact(**changes):
    return claim(**({"kind": "exact", "published": {"mean": 0.4475}, "absolute": 0.00005, "accept": {}, "opposite": {}} | changes))


@pytest.mark.parametrize(("found", "verdict"), [(0.44748, Verdict.EXACT), (0.4476, Verdict.WRONG), ("NaN", Verdict.WRONG)])
def test_exact_figure_agrees_to_its_digits_or_is_wrong(found, verdict):
    assert judge(exact(), measured(found, name="mean")).verdict is verdict


def test_one_wrong_figure_of_several_makes_the_claim_wrong_and_is_named():
    both = exact(published={"one": 1.0, "two": 2.0})
    ruling = judge(both, Measured(values={"one": Value(estimate=1.0), "two": Value(estimate=3.0)}, where="here"))
    assert ruling.verdict is Verdict.WRONG
    assert "two is 3" in ruling.reason
    assert "one" not in ruling.reason


def test_exact_words_must_be_the_same():
    words = exact(published={"gpt2": "pre layer_norm"}, absolute=0.0)
    assert judge(words, measured("pre layer_norm", name="gpt2")).verdict is Verdict.EXACT
    assert judge(words, measured("post layer_norm", name="gpt2")).verdict is Verdict.WRONG


def test_figure_without_tolerance_must_be_equal():
    count = exact(published={"parameters": 512}, absolute=0.0)
    assert judge(count, measured(512, name="parameters")).verdict is Verdict.EXACT
    assert judge(count, measured(511, name="parameters")).verdict is Verdict.WRONG


def test_evaluator_that_yields_another_figure_is_an_error():
    with pytest.raises(NormbenchError, match="yields no 'saved_percent'"):
        judge(claim(), measured(15, name="ratio"))
    with pytest.raises(NormbenchError, match="none of its figures"):
        judge(exact(published={"gpt2": "pre"}, absolute=0.0), measured(1.0, name="llama"))


def test_reason_gives_the_interval_and_what_was_asked():
    assert judge(claim(), measured(8, 7, 9)).reason == "saved_percent is 8 (7 to 9), not 10 to 20"
