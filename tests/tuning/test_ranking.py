"""Budgets first, then time where there is any, then the model; today's launch is kept unless something is really better."""

import pytest

from normbench.cases.case import Pass
from normbench.tuning.candidates import Candidate
from normbench.tuning.model import Bound, Estimate
from normbench.tuning.ranking import Judged, stand, survivors, why


def launch(num_warps):
    return Candidate(direction=Pass.FORWARD, block_rows=1, block_cols=1024, num_warps=num_warps, max_registers=None)


TODAY, OTHER, THIRD = launch(4), launch(8), launch(16)


def an_estimate(slowdown=1.0, *, bound=Bound.LATENCY, warps=32.0, broken=()):
    bounds = {"traffic": 1.0, "latency": 1.0, "issue": 0.5} | {bound.value: slowdown}
    if bound is Bound.TRAFFIC:
        bounds["latency"] = slowdown
    return Estimate(
        registers=40,
        stack_bytes=8 if broken else 0,
        vectors=1.0,
        instructions_per_element=12.5,
        resident_programs=warps / 4,
        resident_warps=warps,
        in_flight_bytes=32 * 1024 / slowdown,
        broken=tuple(broken),
        **bounds,
    )


def judge(**estimates):
    """Return candidates with an estimate each, or with several; a pair of estimates and a ratio has been timed."""
    names = {"today": TODAY, "other": OTHER, "third": THIRD}
    found = {}
    for name, given in estimates.items():
        ones, ratio = given if isinstance(given, tuple) else (given, None)
        ones = tuple(ones) if isinstance(ones, list) else (ones,)
        found[names[name]] = Judged(candidate=names[name], estimates=ones, time_ratio=ratio)
    return found


def test_the_model_decides_where_there_is_no_clock():
    standing = stand(judge(today=an_estimate(1.5), other=an_estimate(1.0), third=an_estimate(1.2)), TODAY)
    assert standing.best.candidate == OTHER
    assert standing.gain == pytest.approx(0.5)
    assert standing.is_clear
    assert not standing.is_timed


def test_a_launch_serves_all_norms_and_devices_and_is_as_good_as_its_worst():
    mixed = [an_estimate(1.0), an_estimate(2.0)]
    assert stand(judge(today=an_estimate(1.5), other=mixed), TODAY).best.candidate == TODAY


def test_what_cannot_be_told_apart_leaves_todays():
    standing = stand(judge(today=an_estimate(1.01), other=an_estimate(1.0)), TODAY)
    assert standing.best is standing.today
    assert standing.gain == 0
    assert not standing.is_clear


def test_of_equals_the_one_with_most_warps_is_taken():
    standing = stand(judge(today=an_estimate(1.5), other=an_estimate(1.0, warps=16.0), third=an_estimate(1.01, warps=48.0)), TODAY)
    assert standing.best.candidate == THIRD


def test_a_small_gain_by_the_model_is_none_to_change_a_launch_for():
    assert not stand(judge(today=an_estimate(1.08), other=an_estimate(1.0)), TODAY).is_clear


def test_who_breaks_a_budget_is_out_however_fast():
    broken = an_estimate(0.5, broken=["8 bytes of stack"])
    assert stand(judge(today=an_estimate(1.5), other=broken), TODAY).best.candidate == TODAY


def test_todays_that_breaks_a_budget_gives_way_to_whatever_keeps_it():
    standing = stand(judge(today=an_estimate(1.0, broken=["8 bytes of stack"]), other=an_estimate(1.4)), TODAY)
    assert standing.best.candidate == OTHER
    assert standing.is_clear
    assert why(standing) == "8 bytes of stack"


def test_todays_stays_where_nothing_keeps_the_budgets():
    assert stand(judge(today=an_estimate(broken=["spills"]), other=an_estimate(broken=["spills"])), TODAY).best.candidate == TODAY


def test_the_clock_overrules_the_model():
    standing = stand(judge(today=(an_estimate(1.0), 1.0), other=(an_estimate(2.0), 0.9), third=an_estimate(0.5)), TODAY)
    assert standing.best.candidate == OTHER
    assert standing.is_timed
    assert standing.is_clear
    assert standing.gain == pytest.approx(1 / 0.9 - 1)


def test_a_gain_within_the_noise_of_the_clock_is_none():
    assert stand(judge(today=(an_estimate(2.0), 1.0), other=(an_estimate(1.0), 0.99)), TODAY).best.candidate == TODAY


def test_survivors_are_today_and_the_best_that_keep_their_budgets():
    judged = judge(today=an_estimate(3.0), other=an_estimate(2.0), third=an_estimate(1.0))
    assert survivors(judged, TODAY, 1) == [TODAY, THIRD]
    judged[THIRD] = Judged(candidate=THIRD, estimates=(an_estimate(broken=["spills"]),))
    assert survivors(judged, TODAY, 2) == [TODAY, OTHER]


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (Bound.LATENCY, "16 KiB in flight (8 programs of 40 registers); best 32 KiB in flight (8 programs of 40 registers)"),
        (Bound.TRAFFIC, "2 times the fewest bytes; best 1 times the fewest bytes"),
        (Bound.ISSUE, "12.5 instructions an element; best 12.5 instructions an element"),
    ],
)
def test_why_names_what_todays_waits_for_and_what_the_best_has_of_it(bound, words):
    assert why(stand(judge(today=an_estimate(2.0, bound=bound), other=an_estimate(1.0)), TODAY)) == words
