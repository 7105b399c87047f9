"""How a candidate stands: what its checks and blocks make of it."""

from math import log

import pytest

from normbench.case import Case
from normbench.gate.decide import Verdict
from normbench.gate.process import Candidate
from normbench.gate.standing import MAX_TURNS, MIN_SAMPLE_S, MIN_TURNS, BlockSamples, Standing, gate_schedule
from normbench.measure.checking import CheckResult
from normbench.record import Memory, Status

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


def test_both_arms_make_the_calls_per_sample_that_base_needs():
    schedule = gate_schedule(ARMS, call_s=MIN_SAMPLE_S / 3.5, overhead_s=0.0, share_s=1.0, single=False)
    assert schedule.inner == dict.fromkeys(ARMS, 4)


def test_a_cold_cache_asks_for_one_call_a_sample():
    assert gate_schedule(ARMS, call_s=1e-6, overhead_s=0.0, share_s=1.0, single=True).inner == dict.fromkeys(ARMS, 1)


@pytest.mark.parametrize(
    ("call_s", "share_s", "turns"),
    [
        pytest.param(1e-3, 10.0, MAX_TURNS, id="time is plenty"),
        pytest.param(1.0, 0.1, MIN_TURNS, id="one call takes longer than the block may"),
        # (0.2 / 2 - 0.02) / (2 arms x 5 ms)
        pytest.param(5e-3, 0.2, 8, id="in between"),
    ],
)
def test_turns_fill_the_share_of_the_budget(call_s, share_s, turns):
    assert gate_schedule(ARMS, call_s=call_s, overhead_s=0.02, share_s=share_s, single=False).turns == turns
