"""How a candidate stands: what its checks and blocks make of it."""

from math import log

import pytest

from normbench.cases.case import Case
from normbench.gate.decide import Verdict
from normbench.gate.process import Candidate
from normbench.gate.standing import MAX_TURNS, MIN_SAMPLE_S, REPETITIONS, BlockCost, BlockSamples, Standing, block_shares
from normbench.measure.checking import CheckResult
from normbench.records.measurement import Memory
from normbench.records.record import Status

ARMS = ("base aten", "head aten")


def standing():
    return Standing(candidate=Candidate(case=Case.make("rms_norm", "forward", (4, 8), "float32"), base_spec="aten", head_spec="aten"))


def settled(base, head, **fields):
    one = standing()
    one.settle(
        CheckResult(provider=ARMS[0], status=base, reason="why base", **fields),
        CheckResult(provider=ARMS[1], status=head, reason="why head", **fields),
    )
    return one


OK, UNSUPPORTED, WRONG, ERROR, OOM = Status.OK, Status.UNSUPPORTED, Status.WRONG, Status.ERROR, Status.OOM


@pytest.mark.parametrize(
    ("base", "head", "verdict", "reason"),
    [
        # B03: what base has and head has not is missing, not forgotten.
        (OK, UNSUPPORTED, Verdict.MISSING, "head cannot run it: why head"),
        (UNSUPPORTED, OK, Verdict.NEW, "base cannot run it: why base"),
        (OK, WRONG, Verdict.WRONG, "head: why head"),
        (OK, ERROR, Verdict.FAILED, "head: why head"),
        (OK, OOM, Verdict.FAILED, "head: why head"),
        # New and wrong is wrong.
        (UNSUPPORTED, WRONG, Verdict.WRONG, "head: why head"),
        # Whoever repairs base must not be stopped by it.
        (WRONG, OK, Verdict.NEW, "base is no reference: why base"),
        (ERROR, OK, Verdict.NEW, "base is no reference: why base"),
    ],
)
def test_a_check_that_is_not_passed_on_both_sides_settles_a_candidate(base, head, verdict, reason):
    one = settled(base, head)
    assert (one.decision.verdict, one.decision.reason, one.is_open) == (verdict, reason, False)


def test_what_neither_side_runs_takes_no_part():
    one = settled(UNSUPPORTED, UNSUPPORTED)
    assert not one.is_open
    assert one.decision is None
    assert one.nowhere == f"{one.candidate.id} takes no part: why head"


def test_a_candidate_right_on_both_sides_stays_open_and_knows_what_memory_it_takes():
    one = settled(OK, OK, memory=Memory(peak_bytes=4096))
    assert one.is_open
    assert one.peak_bytes == 4096


def block(base, head):
    return BlockSamples(candidate="c", started_at=0.0, inner=1, base_s=base, head_s=head)


def test_a_blocks_log_ratio_is_the_mean_over_repetitions_of_the_logs_of_ratios_of_medians():
    found = block(base=((1.0, 1.0, 9.0), (2.0,)), head=((2.0, 2.0, 2.0), (8.0,))).log_ratio
    assert found == pytest.approx((log(2) + log(4)) / 2)


def test_a_block_with_a_sample_of_zero_has_no_ratio():
    # B19
    assert block(base=((0.0,),), head=((1.0,),)).log_ratio is None


def cost(call_s, draw_s=0.02, start_s=0.1):
    return BlockCost(call_s=call_s, draw_s=draw_s, start_s=start_s)


def test_both_arms_make_the_calls_per_sample_that_base_needs():
    assert cost(MIN_SAMPLE_S / 3.5).schedule(ARMS, 1.0, single=False).inner == dict.fromkeys(ARMS, 4)


def test_a_cold_cache_asks_for_one_call_a_sample():
    assert cost(1e-6).schedule(ARMS, 1.0, single=True).inner == dict.fromkeys(ARMS, 1)


@pytest.mark.parametrize(
    ("call_s", "share_s", "repetitions", "turns"),
    [
        pytest.param(1e-3, 10.0, 8, MAX_TURNS, id="time is plenty"),
        pytest.param(1.0, 0.1, 1, 1, id="one call takes longer than the block may"),
        # ((0.5 - 0.1) / 4 - 0.02) / (2 arms x 2 ms); with 8 draws 7 turns would be left
        pytest.param(2e-3, 0.5, 4, 20, id="in between"),
    ],
)
def test_draws_and_turns_fill_the_share_of_the_budget(call_s, share_s, repetitions, turns):
    schedule = cost(call_s).schedule(ARMS, share_s, single=False)
    assert (schedule.repetitions, schedule.turns) == (repetitions, turns)


def test_a_block_takes_about_its_share():
    one = cost(2e-3)
    schedule = one.schedule(ARMS, 0.7, single=False)
    assert 0.65 <= one.seconds(schedule.repetitions, schedule.turns, single=False) <= 0.7


def test_what_a_short_case_does_not_need_goes_to_the_others():
    short, long = cost(1e-6), cost(0.05)
    longest = short.seconds(REPETITIONS[0], MAX_TURNS, single=False)
    assert block_shares([long, short, long], 10.0, single=False) == pytest.approx([(10 - longest) / 2, longest, (10 - longest) / 2])


def test_where_time_is_short_all_get_the_same():
    assert block_shares([cost(0.05), cost(1e-6)], 0.2, single=False) == [0.1, 0.1]


def test_nobody_left_shares_nothing():
    assert block_shares([], 1.0, single=False) == []


def test_b19_call_that_the_clock_reads_as_nothing_still_gets_a_schedule():
    cost = BlockCost(call_s=0.0, draw_s=0.0, start_s=0.0)
    schedule = cost.schedule(("base", "head"), 1.0, single=False)
    assert schedule.turns >= 1
    assert schedule.repetitions >= 1
    assert all(1 <= inner < 10**6 for inner in schedule.inner.values())
