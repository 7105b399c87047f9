"""Defects that other benchmark tools had, asked of this gate by the ids of the list they were gathered in."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Cache
from normbench.gate.decide import Decision, Supply, Verdict, block_log, decide, log_ratio
from normbench.gate.outcome import CaseResult, ExitCode, RunEnd, conclude, to_json
from normbench.gate.policy import Policy
from normbench.gate.standing import MIN_SAMPLE_S, BlockCost
from normbench.job.request import make_request
from normbench.job.run import execute
from normbench.measure.plan import Cost, Plan, make_schedule
from normbench.records.record import Role
from normbench.report.tables import bandwidth_table, by_scope
from normbench.results.derived import derive_results
from normbench.storage.stored_run import read_run
from normbench.text.choices import Choices

POLICY = Policy()
LAST = POLICY.looks[-1]


def result(case, verdict):
    return CaseResult(case=case, decision=Decision(verdict=verdict, reason="why"))


def block(rng, *, speed=1.0, change=0.0, time_s=1e-3, spread=0.004):
    """Return the samples of base and head of one block of 20 turns, on a machine `speed` times as slow as it was."""
    mood = speed * math.exp(rng.normal(0, 0.03))
    return tuple(time_s * mood * factor * np.exp(rng.normal(0, spread, 20)) for factor in (1.0, 1.0 + change))


def verdict(blocks, **fields):
    logs = [log_ratio(head.tolist(), base.tolist()) for base, head in blocks]
    return decide(POLICY, logs, cases=6, supply=Supply.CLOSED, **fields).verdict


# B03: baseline {a, b}, current {a}; also current {}.
def test_b03_a_head_that_has_nothing_any_more_is_missing_and_not_green():
    outcome = conclude(POLICY, [result("a", Verdict.MISSING), result("b", Verdict.MISSING)])
    assert outcome.exit_code is ExitCode.MISSING
    assert "a and b" in outcome.sentence


def test_b03_a_renamed_case_is_missing_under_its_old_name_and_new_under_the_other():
    outcome = conclude(POLICY, [result("old", Verdict.MISSING), result("new", Verdict.NEW), result("kept", Verdict.PASS)])
    assert outcome.exit_code is ExitCode.MISSING
    assert "head has not: old" in outcome.sentence
    assert "new in head and had nothing to be compared with: new" in outcome.sentence


@pytest.mark.parametrize("end", RunEnd)
def test_b03_zero_comparisons_are_no_pass_however_the_run_ended(end):
    assert conclude(POLICY, [], end=end).exit_code is ExitCode.INVALID


# B19: baseline 0 s and current 0.1 s; a call that takes no time.
@pytest.mark.parametrize(("base", "head"), [([0.0], [0.1]), ([0.1], [0.0]), ([0.0], [0.0]), ([math.nan], [0.1]), ([0.1], [math.inf])])
def test_b19_a_time_that_is_none_makes_a_case_not_comparable_and_the_run_invalid(base, head):
    odd = block_log([0.01, log_ratio(head, base)])
    decision = decide(POLICY, [0.01] * (LAST - 1) + [odd], cases=6)
    assert decision.verdict is Verdict.NOT_COMPARABLE
    outcome = conclude(POLICY, [result("fine", Verdict.PASS), CaseResult(case="odd", decision=decision)])
    assert outcome.exit_code is ExitCode.INVALID
    text = to_json(outcome)
    read = json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))
    assert read["cases"][1]["decision"]["ratio"] is None


def test_b19_a_call_that_takes_no_time_is_still_called():
    schedule = make_schedule(Plan(), {"nothing": Cost(call_s=0.0)}, single=frozenset())
    assert schedule.repetitions >= 1
    assert schedule.turns >= 1
    assert 1 <= schedule.inner["nothing"] < 10**6


# B51: the same commit on two runners, a momentary clock, tests of microseconds.
@pytest.mark.parametrize("change", [0.0, 0.05, -0.05])
@pytest.mark.parametrize("speed", [0.8, 1.001, 1.26])
def test_b51_another_runner_gives_the_same_verdict_since_both_sides_run_on_it(speed, change):
    here, there = (np.random.default_rng(5) for _ in range(2))
    blocks = [block(here, change=change) for _ in range(LAST)]
    elsewhere = [block(there, change=change, speed=speed) for _ in range(LAST)]
    assert verdict(elsewhere) is verdict(blocks)


def test_b51_a_machine_that_slows_down_half_way_makes_nothing_slower():
    rng = np.random.default_rng(6)
    blocks = [block(rng, speed=1.0 if number < LAST // 2 else 1.26) for number in range(LAST)]
    assert verdict(blocks) is Verdict.PASS


def test_b51_it_is_the_median_that_is_gated():
    # A few turns of head met something else; their mean is 30 % up.
    rng = np.random.default_rng(7)
    blocks = []
    for _ in range(LAST):
        base, head = block(rng)
        head[::7] *= 3.0
        assert head.mean() > 1.25 * base.mean()
        blocks.append((base, head))
    assert verdict(blocks) is Verdict.PASS


def test_b51_a_difference_below_the_relative_floor_is_none_however_sure():
    rng = np.random.default_rng(8)
    assert verdict([block(rng, change=POLICY.margin * 0.75, spread=1e-5) for _ in range(LAST)]) is Verdict.PASS
    assert verdict([block(rng, change=POLICY.margin * 1.5, spread=1e-5) for _ in range(LAST)]) is Verdict.REGRESSION


@pytest.mark.parametrize("call_s", [2e-6, 5e-8, 1e-5])
def test_b51_no_sample_is_shorter_than_the_absolute_floor(call_s):
    # Calls of microseconds are repeated: what one of them met by chance, and the reading of the clock, is spread over all.
    inner = BlockCost(call_s=call_s, draw_s=0.01, start_s=0.1).inner(single=False)
    assert inner * call_s >= MIN_SAMPLE_S
    assert inner == 1 or (inner - 1) * call_s < MIN_SAMPLE_S


def test_b51_a_call_of_microseconds_that_flaps_by_a_third_is_no_regression():
    rng = np.random.default_rng(9)
    assert verdict([block(rng, time_s=2e-6, change=rng.normal(0, 0.3)) for _ in range(LAST)]) is not Verdict.REGRESSION


# B43: RMSNorm of two sizes, 4096 times apart, that takes equally long where nothing waits for the work.
SMALL, LARGE = (Case.make("rms_norm", "forward", (rows, 1024), "float32") for rows in (1, 4096))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return the records of both sizes by the real engine, by case and provider."""
    words = Choices(
        case=f"{SMALL.id},{LARGE.id}",
        provider="aten",
        budget=0.3,
        threads=1,
        out=str(tmp_path_factory.mktemp("runs")),
    )
    path, sound = execute(make_request(words, command=["test"]))
    assert sound
    return {(one.case_id, one.provider): one for one in read_run(path).records}


def samples(measured, case, provider="aten"):
    """Return one process's samples after another, seconds per call."""
    blocks = measured[case.id, provider].measurement.blocks
    return [[sample for turns in one.samples_s for sample in turns] for one in blocks]


@pytest.mark.parametrize("provider", ["aten", "copy"])
def test_b43_time_grows_with_bytes(measured, provider):
    # 4 KiB stay in the first cache and 16 MiB do not, so far more than this is seen; one that does not wait sees a factor of 1.
    small, large = (min(min(one) for one in samples(measured, case, provider)) for case in (SMALL, LARGE))
    assert large > 8 * small


def test_b43_a_gate_of_the_small_problem_against_the_large_one_is_no_pass(measured):
    pairs = zip(samples(measured, SMALL), samples(measured, LARGE), strict=False)
    logs = [log_ratio(large, small) for small, large in pairs]
    assert len(logs) >= 4
    decision = decide(Policy(looks=(len(logs),), error_rate=0.5), logs, cases=1, supply=Supply.CLOSED)
    assert decision.verdict is Verdict.REGRESSION
    assert decision.ratio > 8


def test_b43_bandwidth_above_the_peak_of_the_device_is_an_error(measured):
    # With a warm cache no memory's peak applies, so the same times are read as those of a cold one.
    cold = {one: msgspec.structs.replace(record.conditions, cache=Cache.COLD) for one, record in measured.items()}
    results = derive_results(msgspec.structs.replace(record, conditions=cold[one]) for one, record in measured.items())
    seen = next(one.gbps for one in results if one.record.case == LARGE and one.record.role is Role.PROVIDER)

    def cells(peak_gbps):
        (grid,) = by_scope(results)
        return [row[1] for row in bandwidth_table(grid, peak_gbps).rows if row[0] == LARGE.shape_label]

    assert cells(seen / 2)[0].startswith("**error**: ")
    assert "error" not in cells(seen * 2)[0]
    assert "error" not in cells(None)[0]


def test_b43_both_sizes_move_the_bytes_that_their_shapes_say(measured):
    moved = [one.bytes_moved for one in derive_results(measured.values()) if one.record.role is Role.PROVIDER]
    assert all(1000 < large / small < 4097 for small, large in pairwise(sorted(moved)))
