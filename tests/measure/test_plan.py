"""The plan in plain numbers: what a block does with its share of the budget, and when measuring ends."""

from __future__ import annotations

from math import inf, nan

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.errors import UsageError
from normbench.measure.plan import MAX_LAUNCH_S, WORTHWHILE_TURNS, Cost, Plan, make_schedule, stop_reason
from normbench.quantities.stats import TIME_WIDENING, log_interval
from normbench.records.measurement import StopReason

# Ten blocks of one second each; every test below reads in these terms.
PLAN = Plan(budget_s=10.0, max_blocks=10, max_repetitions=4, max_turns=20, min_sample_s=1e-3)
NONE = frozenset[str]()


def schedule(plan=PLAN, single=NONE, setup_s=0.0, **call_s):
    costs = {arm: cost if isinstance(cost, Cost) else Cost(call_s=cost) for arm, cost in call_s.items()}
    return make_schedule(plan, costs, single=single, setup_s=setup_s)


def turn_s(costs, inner) -> float:
    return sum(cost.before_s + inner[arm] * (cost.call_s + cost.launch_s) for arm, cost in costs.items())


# A short call is repeated until a sample lasts a millisecond; a call of a millisecond or more is a sample by itself.
@pytest.mark.parametrize(("call_s", "inner"), [(3e-6, 334), (0.3e-3, 4), (0.999e-3, 2), (1e-3, 1), (5.0, 1)])
def test_short_calls_are_repeated_within_a_sample(call_s, inner):
    assert schedule(a=call_s).inner == {"a": inner}


def test_each_arm_has_its_own_number_of_calls():
    assert schedule(fast=1e-5, slow=1e-2).inner == {"fast": 100, "slow": 1}


def test_arms_to_be_restored_or_flushed_make_one_call_a_sample():
    assert schedule(single=frozenset(["a"]), a=3e-6, b=3e-6).inner == {"a": 1, "b": 334}


# An empty call on a coarse clock takes no time, and must be repeated all the more.
def test_call_that_the_clock_cannot_see_is_repeated_very_often():
    assert schedule(a=0.0).inner == {"a": 100_000}


# The device is held back while a sample is queued. Where a launch takes longer than the kernel, a full millisecond of kernels would
# take the host much longer than a millisecond.
@pytest.mark.parametrize(
    ("launch_s", "inner"),
    [
        (0.0, 200),
        (5e-6, 200),
        (100e-6, 20),
        # Not even one launch fits; one call there must be.
        (1.0, 1),
    ],
)
def test_launching_limits_the_calls_of_a_sample(launch_s, inner):
    assert MAX_LAUNCH_S == 2e-3
    assert schedule(a=Cost(call_s=5e-6, launch_s=launch_s)).inner == {"a": inner}


def test_tiny_calls_get_all_repetitions_and_turns():
    # A turn of two samples of 1 ms; 4 x 20 of them take 0.16 s of the second.
    assert msgspec.structs.replace(schedule(a=1e-6, b=1e-6), inner={}) == msgspec.structs.replace(
        schedule(a=1e-3, b=1e-3), repetitions=4, turns=20, inner={}
    )


def test_huge_calls_get_one_turn_a_block():
    one = schedule(a=3.0, b=3.0)
    assert (one.repetitions, one.turns) == (1, 1)


# With 50 ms a turn the second holds 20 turns: 4 repetitions of 5. With 60 ms, 16 turns: 3 of 5, for 4 of 4 would not be worth the
# set-up. With 150 ms, 6 turns: one repetition.
@pytest.mark.parametrize(("call_s", "repetitions", "turns"), [(0.0499, 4, 5), (0.06, 3, 5), (0.09, 2, 5), (0.15, 1, 6), (0.4, 1, 2)])
def test_repetitions_give_way_before_turns_become_few(call_s, repetitions, turns):
    one = schedule(a=call_s)
    assert (one.repetitions, one.turns) == (repetitions, turns)


def test_set_up_counts_against_the_turns():
    # A quarter of a second for each of 4 repetitions, of which 0.15 s remain: 10 turns of 10 ms.
    assert (schedule(setup_s=0.15, a=0.0099).repetitions, schedule(setup_s=0.15, a=0.0099).turns) == (4, 10)


# What a block costs should not go into its set-up alone, and a block of one turn is at the mercy of one neighbour.
@pytest.mark.parametrize(
    ("setup_s", "call_s", "turns"), [(0.5, 1.0, 1), (2.0, 1.0, 1), (2.0, 0.5, 2), (2.0, 0.2, 3), (2.0, 0.1, 4), (2.0, 1e-3, 5)]
)
def test_set_up_that_takes_the_whole_block_leaves_so_many_turns_as_make_the_best_of_it(setup_s, call_s, turns):
    one = schedule(msgspec.structs.replace(PLAN, budget_s=1.0), setup_s=setup_s, a=call_s)
    assert (one.repetitions, one.turns) == (1, turns)


@given(st.floats(1e-3, 10), st.floats(1e-3, 10))
def test_no_other_number_of_turns_tells_more_for_the_same_time(setup_s, call_s):
    def variance_at_a_cost_of_one(turns):
        return (1 + 1 / turns) * (setup_s + turns * call_s)

    chosen = schedule(msgspec.structs.replace(PLAN, budget_s=1e-3), setup_s=setup_s, a=call_s).turns
    assert variance_at_a_cost_of_one(chosen) <= (1 + 1e-9) * min(map(variance_at_a_cost_of_one, range(1, WORTHWHILE_TURNS + 1)))


def test_flushing_and_launching_count_against_the_turns():
    # A flush of 40 ms before each call of 1 ms: a turn of two arms takes 82 ms, not 2.
    cold = Cost(call_s=1e-3, before_s=40e-3)
    one = schedule(single=frozenset(["a", "b"]), a=cold, b=cold)
    assert (one.repetitions, one.turns) == (2, 6)
    launched = Cost(call_s=10e-3, launch_s=40e-3)
    assert (schedule(a=launched).repetitions, schedule(a=launched).turns) == (4, 5)


costs = st.builds(Cost, call_s=st.floats(0, 10), launch_s=st.sampled_from([0.0, 1e-5, 1e-2]), before_s=st.sampled_from([0.0, 0.1]))


@given(
    st.dictionaries(st.sampled_from("abcd"), costs, min_size=1),
    st.floats(0, 5),
    st.floats(1e-3, 1e4),
    st.integers(1, 6),
    st.integers(1, 30),
)
def test_every_schedule_can_be_run_and_fits_its_block_or_is_the_least_there_is(arms, setup_s, budget_s, max_repetitions, max_turns):
    plan = Plan(budget_s=budget_s, max_repetitions=max_repetitions, max_turns=max_turns)
    plan.validate()
    one = make_schedule(plan, arms, single=NONE, setup_s=setup_s)
    assert 1 <= one.repetitions <= max_repetitions
    assert 1 <= one.turns <= max_turns
    assert all(calls >= 1 for calls in one.inner.values())
    block_s = one.repetitions * (setup_s + one.turns * turn_s(arms, one.inner))
    assert block_s <= budget_s / plan.max_blocks * (1 + 1e-9) or (
        one.repetitions == 1 and (one.turns == 1 or one.turns * turn_s(arms, one.inner) <= setup_s * 1.2)
    )


WIDE = [0.0, 0.1, 0.0, 0.1, 0.0]
NARROW = [0.0, 0.001, 0.0, 0.001, 0.0]


def test_made_up_logs_are_wide_and_narrow():
    assert log_interval(WIDE, "process").half_width > PLAN.target_half_width
    assert log_interval(NARROW, "process", widening=TIME_WIDENING).half_width < PLAN.target_half_width


# Fewer than 5 blocks give no interval worth printing, whatever they cost.
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 4])
def test_floor_is_taken_even_beyond_the_budget(blocks):
    assert stop_reason(PLAN, {"a": NARROW[:blocks]}, spent_s=1000.0) is None
    assert stop_reason(PLAN, {"a": NARROW[:5]}, spent_s=1000.0) is StopReason.NARROW
    assert stop_reason(PLAN, {"a": WIDE[:5]}, spent_s=1000.0) is StopReason.BUDGET


def test_narrow_interval_ends_it_from_the_minimum_on():
    assert stop_reason(PLAN, {"a": NARROW[:4]}, spent_s=0.0) is None, "four blocks may agree by chance"
    assert stop_reason(PLAN, {"a": NARROW}, spent_s=0.0) is StopReason.NARROW


def test_every_provider_must_be_narrow():
    assert stop_reason(PLAN, {"a": NARROW, "b": WIDE}, spent_s=0.0) is None


# Five blocks took s seconds; a sixth would end at 1.2 s. It must end within the 10 s of the budget.
@pytest.mark.parametrize(("spent_s", "reason"), [(8.3, None), (8.4, StopReason.BUDGET), (10.1, StopReason.BUDGET)])
def test_block_that_would_exceed_the_budget_is_not_begun(spent_s, reason):
    assert stop_reason(PLAN, {"a": WIDE}, spent_s) is reason


def test_all_blocks_done_ends_it():
    assert stop_reason(PLAN, {"a": WIDE + WIDE[:4]}, spent_s=0.0) is None
    assert stop_reason(PLAN, {"a": WIDE * 2}, spent_s=0.0) is StopReason.BLOCKS
    assert stop_reason(PLAN, {"a": WIDE * 2}, spent_s=100.0) is StopReason.BLOCKS, "all that was planned was done"
    assert stop_reason(PLAN, {"a": NARROW * 2}, spent_s=100.0) is StopReason.NARROW, "the best reason comes first"


def test_single_block_can_be_enough():
    plan = Plan(floor_blocks=1, min_blocks=1, max_blocks=1)
    plan.validate()
    assert stop_reason(plan, {"a": [0.0]}, spent_s=0.0) is StopReason.BLOCKS


# A process effect well under the target stops at 5 blocks, one far above it at 10; between them the rule looks again after every
# block, which could favour intervals that are narrow by chance.
@pytest.mark.parametrize("process_sd", [0.003, 0.008, 0.012, 0.02, 0.05])
def test_looking_after_every_block_costs_little_coverage(process_sd):
    rng = np.random.default_rng(5)
    runs, covered = 1000, 0
    plan = Plan(budget_s=1e9)
    for _ in range(runs):
        logs: list[float] = []
        while stop_reason(plan, {"a": logs}, spent_s=0.0) is None:
            logs.append(float(rng.normal(0, process_sd)))
        interval = log_interval(logs, "process")
        covered += interval.low <= 1 <= interval.high
    assert 0.92 <= covered / runs <= 0.98, "Student's, before it is widened"


@pytest.mark.parametrize("name", ["budget_s", "target_half_width", "min_sample_s", "timeout_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf])
def test_amount_that_is_no_positive_number_is_refused(name, value):
    with pytest.raises(UsageError, match=rf"^{name} {value!r} must be"):
        Plan(**{name: value}).validate()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"floor_blocks": 0}, r"floor \(0\)"),
        ({"floor_blocks": 6}, r"floor \(6\) <= min \(5\)"),
        ({"min_blocks": 11}, r"min \(11\) <= max \(10\)"),
        ({"max_repetitions": 0}, "max_repetitions 0"),
        # One turn per repetition shows nothing of the spread within it.
        ({"max_turns": 0}, "max_turns 0"),
    ],
)
def test_counts_that_cannot_work_are_refused(changes, fault):
    with pytest.raises(UsageError, match=fault):
        Plan(**changes).validate()


def test_default_plan_is_valid():
    Plan().validate()


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 900.0])
def test_a_sustained_run_must_end_before_its_process_is_taken_to_hang(value):
    Plan(sustain_s=0.0).validate()
    with pytest.raises(UsageError, match=r"sustain_s .* at least 0 and below timeout_s 900\.0"):
        Plan(sustain_s=value).validate()
