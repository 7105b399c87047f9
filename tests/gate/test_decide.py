"""Blocks become one verdict: the same whenever asked for, the same for times and rates, never from what is no number."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.metric import Better
from normbench.errors import UsageError
from normbench.gate.decide import Supply, Verdict, block_log, decide, decide_once, detectable_slowdown, log_ratio
from normbench.gate.policy import Policy, thresholds

POLICY = Policy()
CASES = 6
LAST = POLICY.looks[-1]


def blocks(change=0.0, spread=0.006, count=LAST, seed=0) -> list[float]:
    """Return the log ratios of blocks of a case that takes 1 + change times as long."""
    return (math.log1p(change) + spread * np.random.default_rng(seed).standard_normal(count)).tolist()


def verdict(logs, **given_) -> Verdict:
    return decide(POLICY, logs, cases=CASES, **given_).verdict


# Far enough on either side of the margin of 2 % that no draw of the noise matters: 0.6 % a block, 0.2 % after twelve.
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (0.0, Verdict.PASS),
        (0.01, Verdict.PASS),
        (-0.01, Verdict.PASS),
        (0.03, Verdict.REGRESSION),
        (0.5, Verdict.REGRESSION),
        (-0.03, Verdict.IMPROVEMENT),
        (-0.5, Verdict.IMPROVEMENT),
    ],
)
def test_verdict_is_about_the_margin(change, expected):
    decision = decide(POLICY, blocks(change), cases=CASES)
    assert decision.verdict is expected
    assert decision.ratio == pytest.approx(1 + change, abs=0.006)
    assert decision.low < decision.ratio < decision.high
    assert decision.spread == pytest.approx(0.006, rel=0.6)
    assert decision.next_look is None


def test_quiet_case_passes_at_the_first_look_and_a_changed_one_waits_for_a_look_that_can_show_it():
    assert decide(POLICY, blocks(), cases=CASES).blocks == 8
    assert decide(POLICY, blocks(0.05), cases=CASES).blocks == 12
    assert decide(POLICY, blocks(-0.05), cases=CASES).blocks == 12, "an improvement is not passed over as good enough"


def test_significance_without_size_is_no_regression():
    # Slower by 1.5 % to the thousandth: p is as small as it can be.
    decision = decide(POLICY, blocks(0.015, spread=1e-5), cases=CASES)
    assert decision.verdict is Verdict.PASS
    assert decision.p == 2.0**-decision.blocks


def test_size_without_significance_is_no_regression():
    # Half of the blocks say 20 %, the others -10 %.
    decision = decide(POLICY, [0.2, -0.1] * 13, cases=CASES)
    assert decision.ratio > 1.02
    assert decision.p > 0.01
    assert decision.verdict is Verdict.NOT_GATEABLE


def test_difference_that_two_copies_of_the_same_code_may_have_is_no_evidence():
    # 0.4 % in every block: certain, if the question were whether it is zero.
    assert decide(POLICY, [0.004] * LAST, cases=CASES).p == 1


def test_noisy_case_is_not_gateable_and_says_what_it_could_have_shown():
    decision = decide(POLICY, [0.06, -0.06] * 13, cases=CASES)
    assert decision.verdict is Verdict.NOT_GATEABLE
    assert decision.smallest_detectable > POLICY.detectable
    assert decision.reason == f"too noisy: a slow-down below {100 * decision.smallest_detectable:.2g} % could go unseen"


def test_blocks_that_contradict_each_other_are_not_passed_over():
    # Worse by 5 % in 21 blocks of 26, which looks quiet, and better by 10 % in five, which is too many for luck.
    decision = decide(POLICY, [*[0.05, 0.051, 0.049, 0.05, -0.1] * 5, 0.05], cases=24)
    assert decision.verdict is Verdict.NOT_GATEABLE
    assert decision.reason == "blocks contradict each other: worse by 5.1 % in most, not in all"


def test_noise_between_passes_with_its_number():
    decision = decide(POLICY, [0.017, -0.017] * 13, cases=CASES)
    assert decision.verdict is Verdict.PASS
    assert decision.blocks == LAST
    assert POLICY.margin < decision.smallest_detectable < POLICY.detectable


def test_undecided_case_says_how_many_blocks_it_needs():
    asked = [decide(POLICY, blocks(spread=0.03, count=count), cases=CASES) for count in range(LAST)]
    assert {one.verdict for one in asked} == {Verdict.UNDECIDED}
    assert [one.next_look for one in asked] == [8] * 8 + [12] * 4 + [18] * 6 + [26] * 8
    assert asked[0].ratio is None
    assert asked[9].reason == "needs 12 blocks, has 9"


@given(seed=st.integers(0, 10**6), change=st.sampled_from([0.0, 0.02, 0.04, -0.04]), spread=st.sampled_from([0.003, 0.01, 0.03]))
def test_verdict_is_the_same_whenever_it_is_asked_for(seed, change, spread):
    # Asked after every block or once at the end; blocks that came after the decision change nothing.
    logs = blocks(change, spread, LAST, seed)
    after_each = [decide(POLICY, logs[:count], cases=CASES) for count in range(1, LAST + 1)]
    decided = [one for one in after_each if one.verdict is not Verdict.UNDECIDED]
    assert all(one == decided[0] for one in decided)
    assert decided[0] == decide(POLICY, [*logs, 5.0, -5.0], cases=CASES)
    assert all(not (a.verdict is not Verdict.UNDECIDED and b.verdict is Verdict.UNDECIDED) for a, b in pairwise(after_each))


@given(seed=st.integers(0, 10**6), change=st.sampled_from([0.0, 0.03, -0.03]), spread=st.sampled_from([0.003, 0.02]))
def test_rate_is_judged_as_the_time_it_stands_for(seed, change, spread):
    # B20: tokens per second up is good. A rate is one over a time, so its log ratio is the negative.
    logs = blocks(change, spread, LAST, seed)
    time = decide(POLICY, logs, cases=CASES, better=Better.LESS)
    rate = decide(POLICY, [-value for value in logs], cases=CASES, better=Better.MORE)
    assert rate.verdict is time.verdict
    assert (rate.p, rate.blocks, rate.smallest_detectable) == (time.p, time.blocks, time.smallest_detectable)
    assert rate.ratio == pytest.approx(1 / time.ratio)
    assert (rate.low, rate.high) == pytest.approx((1 / time.high, 1 / time.low))
    assert rate.worsening == pytest.approx(time.worsening)


def test_more_tokens_per_second_are_an_improvement_and_fewer_a_regression():
    faster = [math.log(110 / 100)] * LAST
    slower = [math.log(90 / 100)] * LAST
    assert verdict(faster, better=Better.MORE) is Verdict.IMPROVEMENT
    assert verdict(slower, better=Better.MORE) is Verdict.REGRESSION
    assert verdict(faster, better=Better.LESS) is Verdict.REGRESSION
    assert verdict(slower, better=Better.LESS) is Verdict.IMPROVEMENT


@given(seed=st.integers(0, 10**6), change=st.sampled_from([0.0, 0.03]), spread=st.sampled_from([0.006, 0.02]))
def test_exchanged_sides_exchange_the_verdict(seed, change, spread):
    logs = blocks(change, spread, LAST, seed)
    there, back = decide(POLICY, logs, cases=CASES), decide(POLICY, [-value for value in logs], cases=CASES)
    mirrored = {Verdict.REGRESSION: Verdict.IMPROVEMENT, Verdict.IMPROVEMENT: Verdict.REGRESSION}
    if there.verdict in mirrored:
        assert back.verdict is mirrored[there.verdict]
    assert back.ratio == pytest.approx(1 / there.ratio) or back.blocks != there.blocks


# B19: what a broken timer gives. None is a repetition that could not be compared.
@pytest.mark.parametrize("odd", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_gives_no_ratio(odd):
    for logs in ([odd], [0.0] * 7 + [odd], [0.0] * LAST + [odd]):
        decision = decide(POLICY, logs, cases=CASES)
        assert decision.verdict is Verdict.NOT_COMPARABLE
        assert (decision.ratio, decision.low, decision.high, decision.p, decision.smallest_detectable) == (None,) * 5
        assert decision.reason.startswith(f"block {len(logs)} has")


@pytest.mark.parametrize(
    ("head", "base"),
    [([0.1], [0.0]), ([0.0], [0.0]), ([0.0], [0.1]), ([], [0.1]), ([0.1], []), ([math.nan], [0.1]), ([0.1], [math.inf]), ([-0.1], [0.1])],
)
def test_samples_that_are_no_times_have_no_ratio(head, base):
    assert log_ratio(head, base) is None
    assert block_log([0.1, log_ratio(head, base)]) is None


def test_ratio_of_a_repetition_is_that_of_its_medians():
    assert log_ratio([1.0, 2.0, 90.0], [1.0, 1.0, 5.0]) == pytest.approx(math.log(2))
    assert block_log([0.1, 0.3]) == pytest.approx(0.2)
    assert block_log([]) is None


@pytest.mark.parametrize("value", [1e3, -1e3, 700.1])
def test_ratio_beyond_all_numbers_is_null_and_still_a_change(value):
    decision = decide(POLICY, [value] * LAST, cases=CASES)
    assert decision.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    assert decision.ratio is None


def test_largest_ratio_of_two_times_is_a_number():
    assert math.isfinite(log_ratio([1.7e308], [5e-324]))
    assert verdict([log_ratio([1.7e308], [5e-324])] * LAST) is Verdict.REGRESSION


# The budget is out: after nothing, after too few blocks to speak of, and after fewer than any look that can show a change.
@pytest.mark.parametrize(
    ("count", "reason"), [(0, "0 blocks are too few"), (3, "3 blocks are too few"), (10, "10 blocks can show no change")]
)
def test_budget_that_ends_too_soon_is_not_gateable_rather_than_a_pass(count, reason):
    decision = decide(POLICY, blocks(0.05, 0.02, count), cases=CASES, supply=Supply.CLOSED)
    assert decision.verdict is Verdict.NOT_GATEABLE
    assert decision.reason.startswith(reason)
    assert decision.smallest_detectable is None


def test_budget_that_ends_between_looks_gives_the_last_word():
    assert decide(POLICY, blocks(0.05, 0.025, 16, seed=3), cases=CASES).verdict is Verdict.UNDECIDED
    assert verdict(blocks(0.08, 0.02, 16), supply=Supply.CLOSED) is Verdict.REGRESSION
    assert verdict(blocks(0.0, 0.005, 7), supply=Supply.CLOSED) is Verdict.PASS


def test_closing_the_supply_does_not_change_what_was_decided():
    for change in (0.0, 0.05):
        logs = blocks(change)
        assert decide(POLICY, logs, cases=CASES, supply=Supply.CLOSED) == decide(POLICY, logs, cases=CASES)


def test_control_is_judged_on_all_its_blocks():
    # Still for the first look, 10 % slower from then on.
    logs = [*blocks(count=8), *blocks(0.1, count=LAST - 8)]
    assert verdict(logs) is Verdict.PASS, "a case is decided at its first look and measured no further"
    once = decide_once(POLICY, logs, cases=CASES)
    assert (once.verdict, once.blocks) == (Verdict.REGRESSION, LAST)
    assert decide_once(POLICY, [*blocks(), *blocks(9.0)], cases=CASES).verdict is Verdict.PASS, "beyond the last look there is nothing"
    assert decide_once(POLICY, [0.0, None], cases=CASES).verdict is Verdict.NOT_COMPARABLE


def test_gate_that_can_never_turn_red_does_not_judge():
    with pytest.raises(UsageError, match="never turn red"):
        decide(Policy(looks=(6, 8)), blocks(0.5), cases=24)


# From where the margin rules to where the noise does; 6 cases and 24 have other looks.
@pytest.mark.parametrize(("spread", "cases"), [(0.003, 6), (0.012, 6), (0.02, 24)])
def test_smallest_detectable_slowdown_is_found_nine_times_in_ten(spread, cases):
    found_at = detectable_slowdown(POLICY, cases=cases, spread=spread, blocks=LAST)
    rng = np.random.default_rng(5)
    last_share = thresholds(POLICY, cases).change[-1]
    at_last_look = Policy(looks=(LAST,), error_rate=2 * cases * last_share)
    runs = 300
    found = 0
    for _ in range(runs):
        logs = (math.log1p(found_at) + spread * rng.standard_normal(LAST)).tolist()
        found += decide(at_last_look, logs, cases=cases).verdict is Verdict.REGRESSION
    assert 0.83 <= found / runs <= 0.97


def test_smallest_detectable_grows_with_noise_and_cases_and_shrinks_with_blocks():
    def found_at(cases=6, spread=0.012, count=LAST):
        return detectable_slowdown(POLICY, cases=cases, spread=spread, blocks=count)

    assert POLICY.margin < found_at(spread=1e-6) < found_at(spread=0.006) < found_at() < found_at(spread=0.025)
    assert found_at(cases=6, spread=0.03) < found_at(cases=100, spread=0.03)
    assert found_at(count=LAST) < found_at(count=18) < found_at(count=13)
