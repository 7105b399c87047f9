"""Rates are times turned over: intervals with their ends changed, ratios above 1 for more, and nothing told that samples do not hold."""

from __future__ import annotations

import msgspec
import pytest
import synthetic
import throughput_runs
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.metric import TIME, tokens_metric
from normbench.quantities.stats import Interval, Unit, time_interval
from normbench.records.measurement import Block, Measurement, Memory, StopReason, Sustained
from normbench.records.record import Status
from normbench.results.rates import (
    NOT_SUSTAINED,
    latencies,
    metric_interval,
    metric_ratio,
    per_gib,
    rate_series,
    sustained_rates,
)

TOKENS = tokens_metric(128)
TIMED = Interval(estimate=0.01, low=0.008, high=0.016, unit=Unit("process", 5))


def test_the_ends_of_a_rates_interval_are_those_of_the_time_changed_over():
    rate = metric_interval(TOKENS, TIMED)
    assert (rate.low, rate.estimate, rate.high) == pytest.approx((8000, 12800, 16000))
    assert (rate.level, rate.unit) == (TIMED.level, TIMED.unit)


def test_a_time_is_its_own_metric():
    assert metric_interval(TIME, TIMED) is TIMED


def test_a_rate_without_an_interval_has_none():
    rate = metric_interval(TOKENS, Interval(estimate=0.01, low=None, high=None, unit=Unit("process", 1)))
    assert (rate.estimate, rate.low, rate.high) == (12800, None, None)


@given(low=st.floats(1e-6, 1), up=st.floats(1, 10), more=st.floats(1, 10), tokens=st.integers(1, 10**6))
def test_a_rates_interval_holds_its_estimate(low, up, more, tokens):
    rate = metric_interval(tokens_metric(tokens), Interval(estimate=low * up, low=low, high=low * up * more, unit=Unit("process", 3)))
    assert rate.low <= rate.estimate * (1 + 1e-12)
    assert rate.estimate <= rate.high * (1 + 1e-12)


def arms(**fields):
    return {(one.case.norm.value, one.provider): one for one in throughput_runs.group(**fields)}


def test_above_1_is_more_tokens_per_second_whatever_took_less_time():
    found = arms()
    ratio = metric_ratio(found["rms_norm", "compile"], found["rms_norm", "aten"])
    assert ratio.estimate == pytest.approx(9.5 / 8, rel=0.01)
    assert 1 < ratio.low < ratio.estimate < ratio.high
    back = metric_ratio(found["rms_norm", "aten"], found["rms_norm", "compile"])
    assert back.estimate == pytest.approx(1 / ratio.estimate)
    assert back.low == pytest.approx(1 / ratio.high)


def test_of_times_the_ratio_is_that_of_the_times():
    slow, fast = (synthetic.record(CASE, name, time_s=time_s) for name, time_s in (("eager", 4e-3), ("aten", 2e-3)))
    assert metric_ratio(slow, fast).estimate == pytest.approx(2, rel=0.01)


CASE = throughput_runs.group()[0].case


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "elsewhere"},
        {"status": Status.ERROR, "reason": "boom"},
        {"measurement": throughput_runs.measurement(1e-3, processes=4)},
        {"measurement": None},
    ],
    ids=["another group", "not measured", "other processes", "no samples"],
)
def test_no_ratio_of_what_did_not_take_turns(changes):
    found = arms()
    other = msgspec.structs.replace(found["rms_norm", "compile"], **changes)
    assert metric_ratio(other, found["rms_norm", "aten"]) is None


def calls(*samples_s, inner=1, processes=1):
    block = Block(started_at=0.0, inner=inner, samples_s=(samples_s,))
    return Measurement(timer="a clock", blocks=(block,) * processes, stop=StopReason.BLOCKS)


def test_percentiles_are_samples_of_all_processes_by_nearest_rank():
    found = latencies(calls(*(float(number) for number in range(50, 0, -1)), processes=2))
    assert (found.p50_s, found.p90_s, found.p99_s, found.samples, found.missing) == (25.0, 45.0, 50.0, 100, {})


def test_a_percentile_is_told_where_a_call_is_to_be_expected_beyond_it():
    told = {count: latencies(calls(*[1.0] * count)) for count in (1, 2, 9, 10, 99, 100)}
    assert {count: [found.value_s(name) is not None for name in ("p50", "p90", "p99")] for count, found in told.items()} == {
        1: [False, False, False],
        2: [True, False, False],
        9: [True, False, False],
        10: [True, True, False],
        99: [True, True, False],
        100: [True, True, True],
    }
    assert told[99].missing == {"p99": "p99 needs 100 single calls"}


@given(st.lists(st.floats(1e-6, 1.0), min_size=100, max_size=300))
def test_a_percentile_leaves_no_more_samples_beyond_it_than_it_says(samples):
    found = latencies(calls(*samples))
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        value = found.value_s(name)
        assert value in samples
        assert sum(sample > value for sample in samples) <= (1 - share) * len(samples) + 1e-6
        assert sum(sample < value for sample in samples) < share * len(samples) + 1e-6


def test_a_mean_of_several_calls_is_no_latency():
    found = latencies(calls(*[1.0] * 200, inner=4))
    assert (found.p50_s, found.p90_s, found.p99_s) == (None, None, None)
    assert set(found.missing.values()) == {"a sample is the mean of 4 calls"}


def test_energy_and_rate_of_an_arm_by_itself_are_per_token():
    found = sustained_rates(throughput_runs.sustained(calls=100, duration_s=2.0, energy_j=64.0), TOKENS)
    assert (found.tokens_per_s, found.joules_per_token, found.tokens_per_joule) == (6400, 0.005, 200)
    assert (found.source, found.missing, found.energy_missing) == (throughput_runs.COUNTER, None, None)


def test_a_run_without_energy_keeps_its_rate_and_the_reason():
    found = sustained_rates(throughput_runs.sustained(energy_j=None, energy_source=None, reasons={"energy_j": "no counter"}), TOKENS)
    assert (found.tokens_per_s, found.joules_per_token, found.energy_missing) == (12800, None, "no counter")


def test_a_counter_that_stood_still_does_not_make_tokens_free():
    found = sustained_rates(throughput_runs.sustained(energy_j=0.0), TOKENS)
    assert found.joules_per_token is None
    assert "did not move" in found.energy_missing


@pytest.mark.parametrize(
    ("given", "reason"),
    [(None, NOT_SUSTAINED), (Sustained(duration_s=0.0, calls=0, reasons={"calls": "it died"}), "it died")],
    ids=["left out", "failed"],
)
def test_an_arm_that_was_not_run_by_itself_has_nothing_but_the_reason(given, reason):
    found = sustained_rates(given, TOKENS)
    assert (found.tokens_per_s, found.joules_per_token, found.missing, found.energy_missing) == (None, None, reason, reason)


def test_per_gigabyte_is_over_the_peak_of_a_call():
    rate = metric_interval(TOKENS, TIMED)
    assert per_gib(rate, Memory(peak_bytes=2**29)) == 2 * rate.estimate
    assert per_gib(rate, None) is per_gib(rate, Memory(reason="no counter")) is per_gib(rate, Memory(peak_bytes=0)) is None


def test_a_series_of_rates_adds_up_to_all_calls():
    found = rate_series(throughput_runs.sustained(calls=100, duration_s=2.0, moments=5), TOKENS)
    assert found == [(pytest.approx(0.4 * (number + 1)), pytest.approx(6400)) for number in range(5)]


def test_moments_with_few_calls_between_them_are_taken_together():
    # Two and three calls in turns between moments are one rate, not two.
    counts = tuple(float(5 * moment // 2) for moment in range(1, 81))
    slow = Sustained(duration_s=8.0, calls=200, at_s=tuple(0.1 * moment for moment in range(1, 81)), series={"calls": counts})
    found = rate_series(slow, tokens_metric(1))
    assert len(found) == 10
    assert all(rate == pytest.approx(25) for _, rate in found)


def test_rate_of_slow_calls_is_told_by_when_they_ended_and_not_told_where_that_is_not_known():
    # Calls of 0.8 s: one or none between two moments, which would be rates of 0 and 20.
    at_s, calls = (0.5, 1.0, 1.5, 2.0, 2.5), (0.0, 1.0, 1.0, 2.0, 3.0)
    unknown = Sustained(duration_s=2.5, calls=3, at_s=at_s, series={"calls": calls})
    assert rate_series(unknown, tokens_metric(10)) == []
    known = msgspec.structs.replace(unknown, series={"calls": calls, "ended_s": (0.0, 0.8, 0.8, 1.6, 2.4)})
    assert rate_series(known, tokens_metric(10)) == [(1.0, 12.5), (2.0, 12.5), (2.5, pytest.approx(12.5))]
    assert rate_series(Sustained(duration_s=1.0, calls=5), tokens_metric(10)) == []


def test_a_record_is_judged_by_what_its_time_makes():
    record = throughput_runs.group()[0]
    rate = metric_interval(record.metric, time_interval(record.measurement))
    assert rate.estimate == pytest.approx(2 / 10e-3, rel=0.05), "two sequences, one token each in 10 ms"
