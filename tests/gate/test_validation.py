"""Many gate runs become rates with exact bounds, and the spread of a case is told apart from that of a run."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from normbench.gate.decide import Verdict, decide
from normbench.gate.peers import Call, Rule
from normbench.gate.policy import Policy
from normbench.gate.simulation import NOISES
from normbench.gate.validation import (
    GateRun,
    PeerSample,
    detections,
    false_alarms,
    peer_rates,
    rate,
    resampled_alarms,
    spreads,
)

POLICY = Policy()
NAMES = ("small", "large")


def gate_run(seed, *, spread=0.006, asked=0.0, slowed=None, mood=0.0) -> GateRun:
    """Return a simulated run; what is asked for is put in 1.1 times as large, and `mood` scatters whole runs."""
    rng = np.random.default_rng(seed)
    true = 1.1 * asked
    logs = {
        name: tuple(
            (math.log1p(true if name == slowed else 0.0) + mood * rng.standard_normal() + spread * rng.standard_normal(26)).tolist()
        )
        for name in NAMES
    }
    verdicts = {name: decide(POLICY, logs[name], cases=2).verdict for name in NAMES}
    return GateRun(policy=POLICY, cases=2, logs=logs, verdicts=verdicts, asked=asked, slowdown=true, slowed=slowed)


def told(verdicts, slowed=None, asked=0.05) -> GateRun:
    given_ = {"asked": asked, "slowdown": asked, "slowed": slowed} if slowed else {}
    return GateRun(policy=POLICY, cases=len(verdicts), logs={}, verdicts=verdicts, **given_)


@given(st.integers(0, 80).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_interval_of_a_share_is_the_exact_one(counts):
    hits, total = counts
    found = rate(hits, total)
    if not total:
        assert (found.share, found.low, found.high) == (None, 0, 1)
        return
    expected = scipy_stats.binomtest(hits, total).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.share == hits / total


def test_none_in_sixty_is_below_six_percent():
    # The rule of three, exactly: 1 - 0.025^(1/60).
    assert rate(0, 60).high == pytest.approx(0.0596, abs=1e-4)


def test_false_alarms_are_counted_by_run_by_case_and_beside_a_slowdown():
    red, green = Verdict.REGRESSION, Verdict.PASS
    alarms = false_alarms(
        [
            told({"a": green, "b": green}),
            told({"a": red, "b": red}),
            told({"a": red, "b": green}, slowed="a"),
            told({"a": green, "b": red}, slowed="a"),
            told({"a": Verdict.IMPROVEMENT, "b": Verdict.NOT_GATEABLE}),
        ]
    )
    assert (alarms.runs.hits, alarms.runs.total) == (1, 3)
    assert (alarms.cases.hits, alarms.cases.total) == (2, 6)
    assert (alarms.beside.hits, alarms.beside.total) == (1, 2)


def test_detections_are_grouped_by_size():
    runs = [gate_run(seed, asked=asked, slowed="large") for asked in (0.05, 0.01) for seed in range(5)]
    small, large = detections([*runs, gate_run(9)])
    assert (small.asked, small.found.hits, small.found.total) == (0.01, 0, 5)
    assert (large.asked, large.found.hits, large.found.total) == (0.05, 5, 5)
    assert large.slowdown == pytest.approx(0.055), "what was measured, not what was asked for"


def test_a_case_called_not_gateable_is_not_found_but_counted():
    (row,) = detections([told({"a": Verdict.NOT_GATEABLE}, slowed="a"), told({"a": Verdict.REGRESSION}, slowed="a")])
    assert (row.found.hits, row.found.total, row.not_gateable) == (1, 2, 1)


def test_spread_is_that_of_blocks_and_what_was_put_in_is_taken_out():
    small, large = spreads([gate_run(seed, asked=0.1 * (seed % 2), slowed="large" if seed % 2 else None) for seed in range(30)])
    assert (small.case, large.case) == NAMES
    for row in (small, large):
        assert (row.runs, row.blocks) == (30, 30 * 26)
        assert row.within == pytest.approx(0.006, rel=0.1)
        assert abs(row.bias) < 0.001
        assert abs(row.serial) < 0.15
        assert row.between == pytest.approx(row.expected_between, rel=0.5)
        assert 0.02 < row.smallest_detectable < 0.025


def test_what_lasts_for_a_run_shows_between_runs():
    row, _ = spreads([gate_run(seed, mood=0.01) for seed in range(30)])
    assert row.within == pytest.approx(0.006, rel=0.1)
    assert row.between > 5 * row.expected_between


def test_what_lasts_from_block_to_block_shows_as_serial():
    # Each block half of the one before and half its own: 0.5, pulled down a little by the runs' being short.
    noise = NOISES["moods"](np.random.default_rng(0), 60, 26)
    runs = [msgspec.structs.replace(gate_run(0), logs={"small": tuple(row.tolist())}) for row in noise]
    assert spreads(runs)[0].serial == pytest.approx(0.45, abs=0.07)


def test_case_with_too_few_blocks_has_no_spread():
    short = msgspec.structs.replace(gate_run(0), logs={"small": (0.0, 0.1, 0.2), "large": (0.0, 0.1, 0.2, 0.1)})
    assert [row.case for row in spreads([short])] == ["large"]
    assert spreads([short])[0].between is None
    assert spreads([]) == []


def test_resampled_runs_of_identical_code_are_not_red():
    alarms = resampled_alarms([gate_run(seed) for seed in range(3)], policy=POLICY, samples=60, seed=0)
    assert (alarms.hits, alarms.total) == (0, 60)


def test_resampled_runs_keep_a_bias_and_leave_out_what_was_slowed_on_purpose():
    biased = gate_run(0)
    biased = msgspec.structs.replace(biased, logs={name: tuple(value + 0.04 for value in biased.logs[name]) for name in NAMES})
    slowed = gate_run(1, asked=0.5, slowed="large")
    assert resampled_alarms([biased, slowed], policy=POLICY, samples=10, seed=0).hits == 10
    assert resampled_alarms([gate_run(2), slowed], policy=POLICY, samples=10, seed=0).hits == 0
    with pytest.raises(ValueError, match="no run of identical code"):
        resampled_alarms([slowed], policy=POLICY, samples=10, seed=0)


def test_resampled_runs_share_the_error_rate_by_as_many_cases_as_the_runs_did():
    """A case that is a little slower, about as much as can be found: the more cases share the error, the more rarely it is called."""
    runs = [
        msgspec.structs.replace(gate_run(seed), logs={"small": tuple(log + 0.019 for log in gate_run(seed).logs["small"])})
        for seed in (0, 1)
    ]
    red = [
        resampled_alarms([msgspec.structs.replace(run, cases=cases) for run in runs], policy=POLICY, samples=200, seed=0).hits
        for cases in (1, 5000)
    ]
    assert red == [pytest.approx(65, abs=5), pytest.approx(26, abs=5)]


def test_runs_are_kept_as_json_and_judged_again_from_it():
    run = gate_run(4, asked=0.05, slowed="large")
    read = msgspec.json.decode(msgspec.json.encode(run), type=GateRun)
    assert read == run
    assert {name: decide(read.policy, logs, cases=read.cases).verdict for name, logs in read.logs.items()} == read.verdicts


def test_peers_are_counted_by_run_and_manner():
    def sample(run, case, call, *, manner="sequential", is_slowed=False):
        return PeerSample(run=run, case=case, manner=manner, is_slowed=is_slowed, calls={Rule.ASV: call})

    rows = peer_rates(
        [
            sample(0, "a", Call.RED),
            sample(0, "b", Call.RED),
            sample(1, "a", Call.GREEN),
            sample(1, "b", Call.UNKNOWN),
            sample(2, "a", Call.UNKNOWN),
            sample(3, "a", Call.RED, is_slowed=True),
            sample(3, "b", Call.RED),
            sample(0, "a", Call.GREEN, manner="in turns"),
        ]
    )
    by_name = {(row.manner, row.rule): row for row in rows}
    sequential = by_name["sequential", Rule.ASV]
    assert (sequential.red_runs.hits, sequential.red_runs.total) == (1, 2)
    assert (sequential.found.hits, sequential.found.total) == (1, 1)
    assert (by_name["in turns", Rule.ASV].red_runs.hits, by_name["in turns", Rule.ASV].found.total) == (0, 0)
    assert by_name["sequential", Rule.PYPERF].red_runs.total == 0, "a rule that was not asked is not green"
