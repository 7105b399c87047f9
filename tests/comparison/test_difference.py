"""The interval of a ratio of two runs, and what is said of it."""

from math import exp, expm1, inf, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_ind

from normbench.cases.metric import Better
from normbench.comparison.difference import Difference, Reading, Verdict, cost_range, difference, judge, reading
from normbench.comparison.drift import Drift, drift_of
from normbench.quantities.stats import Interval, Unit, log_interval

STILL = Drift(variance=0.0, groups=6, mean=0.0)
UNKNOWN = drift_of([])


def of(logs, widening=1.0):
    return reading(log_interval(logs, "process", widening=widening))


def told(ratio, spread=0.01, **fields):
    """Return a difference whose interval is `spread` to either side."""
    fields = {"smallest_detectable": expm1(2 * spread)} | fields
    return Difference(ratio=ratio, low=ratio * exp(-spread), high=ratio * exp(spread), level=0.95, **fields)


def test_interval_without_drift_is_welchs():
    before, after = [0.0, 0.1, 0.05, 0.02], [0.3, 0.2, 0.35, 0.3, 0.1, 0.25]
    found = difference(of(before), of(after), STILL, level=0.95)
    expected = ttest_ind(after, before, equal_var=False).confidence_interval(0.95)
    assert (log(found.low), log(found.high)) == pytest.approx((expected.low, expected.high))
    assert log(found.ratio) == pytest.approx(np.mean(after) - np.mean(before))


@pytest.mark.parametrize("widening", [1.0, 1.5, 2.0])
def test_reading_has_the_standard_error_that_its_interval_was_drawn_with(widening):
    logs = [0.0, 0.1, 0.05, 0.02]
    found = of(logs, widening)
    assert found.error == pytest.approx(widening * np.std(logs, ddof=1) / sqrt(4))
    assert (found.log, found.freedom) == (pytest.approx(np.mean(logs)), 3)


def test_drift_alone_gives_students_interval_with_the_cases_as_degrees_of_freedom():
    steady = Reading(log=0.0, error=0.0, freedom=7)
    found = difference(steady, Reading(log=0.1, error=0.0, freedom=7), Drift(variance=0.04**2, groups=5, mean=0.0), level=0.99)
    assert log(found.high) == pytest.approx(0.1 + 0.04 * student.ppf(0.995, 5))


def test_more_drift_and_a_higher_level_make_it_wider():
    before, after = of([0.0, 0.01, 0.02]), of([0.0, 0.02, 0.01])
    widths = [
        difference(before, after, Drift(variance=size**2, groups=6, mean=0.0), level=level).high
        for size, level in ((0.0, 0.95), (0.02, 0.95), (0.1, 0.95), (0.1, 0.999))
    ]
    assert widths == sorted(widths)
    assert len(set(widths)) == 4


def test_smallest_detectable_is_found_nine_times_in_ten():
    rng = np.random.default_rng(0)

    def found(shift):
        before, after = (of(rng.normal(where, 0.02, 6)) for where in (0.0, shift))
        return difference(before, after, STILL, level=0.95)

    seen = np.median([found(0.0).smallest_detectable for _ in range(400)])
    assert 0.8 < np.mean([found(np.log1p(seen)).is_told for _ in range(400)]) < 0.97


@pytest.mark.parametrize(
    ("before", "after", "drift"),
    [
        pytest.param(of([0.0]), of([0.1, 0.2]), STILL, id="one process before"),
        pytest.param(of([0.1, 0.2]), of([0.0]), STILL, id="one process after"),
        pytest.param(of([0.1, 0.2]), of([0.1, 0.2]), UNKNOWN, id="no controls"),
        pytest.param(reading(log_interval([0.0, 0.1], "repetition")), of([0.1, 0.2]), STILL, id="spread within one process"),
    ],
)
def test_without_a_spread_over_processes_and_runs_there_is_a_ratio_and_no_interval(before, after, drift):
    found = difference(before, after, drift, level=0.95)
    assert found.ratio is not None
    assert (found.low, found.high, found.smallest_detectable, found.is_told) == (None, None, None, False)
    assert judge(found, None) == (Verdict.INCONCLUSIVE, "no interval")


# B19: never a ratio that is no number.
@pytest.mark.parametrize("odd", [nan, inf, -inf, 1e4, -1e4])
def test_what_is_no_number_has_no_ratio_and_is_not_comparable(odd):
    found = difference(Reading(log=0.0, error=0.1, freedom=3), Reading(log=odd, error=0.1, freedom=3), STILL, level=0.95)
    assert found == Difference(ratio=None, level=0.95)
    verdict, reason = judge(found, None)
    assert (verdict, reason) == (Verdict.NOT_COMPARABLE, "the ratio is not a finite number above zero")


def test_an_interval_too_wide_for_numbers_is_none():
    found = difference(Reading(log=0.0, error=300.0, freedom=1), Reading(log=0.0, error=300.0, freedom=1), STILL, level=0.999)
    assert (found.ratio, found.low, found.high) == (1.0, None, None)


def test_same_samples_twice_are_no_difference():
    steady = of([0.0, 0.0, 0.0])
    assert judge(difference(steady, steady, STILL, level=0.95), None)[0] is Verdict.NO_DIFFERENCE


@pytest.mark.parametrize(
    ("direct", "relative", "verdict"),
    [
        pytest.param(told(1.1), None, Verdict.SLOWER, id="without a reference the time decides"),
        pytest.param(told(0.9), None, Verdict.FASTER, id="and either way"),
        pytest.param(told(1.1), told(1.2), Verdict.SLOWER, id="both"),
        pytest.param(told(0.9), told(0.8), Verdict.FASTER, id="both faster"),
        pytest.param(told(1.1), told(1.0), Verdict.INCONCLUSIVE, id="the machine slowed down for all"),
        pytest.param(told(1.0), told(1.1), Verdict.INCONCLUSIVE, id="the reference got faster"),
        pytest.param(told(1.1), told(0.9), Verdict.INCONCLUSIVE, id="one each way"),
        pytest.param(told(1.0), told(1.0), Verdict.NO_DIFFERENCE, id="neither"),
        pytest.param(told(1.0), told(1.0, spread=0.3), Verdict.INCONCLUSIVE, id="neither, and one is noisy"),
        pytest.param(told(1.0, spread=0.3), None, Verdict.INCONCLUSIVE, id="noisy"),
    ],
)
def test_a_change_is_called_where_time_and_time_over_the_reference_both_tell_it(direct, relative, verdict):
    assert judge(direct, relative)[0] is verdict


def test_a_reference_without_an_interval_does_not_decide():
    unsure = Difference(ratio=0.5, level=0.95)
    assert judge(told(1.1), unsure)[0] is Verdict.SLOWER


def test_reason_names_the_smaller_of_the_two_changes():
    assert judge(told(1.3), told(1.2)) == (Verdict.SLOWER, "worse by 20 %")
    assert judge(told(0.5), told(0.8)) == (Verdict.FASTER, "better by 25 %")
    assert judge(told(1.1), told(1.0)) == (Verdict.INCONCLUSIVE, "only the time is worse, by 10 %")


# B20: tokens per second up is good.
@given(ratio=st.floats(0.2, 5.0), spread=st.floats(0.001, 0.5), other=st.floats(0.2, 5.0))
def test_a_rate_is_judged_as_the_time_it_stands_for(ratio, spread, other):
    times = told(ratio, spread), told(other, spread)
    rates = told(1 / ratio, spread), told(1 / other, spread)
    assert judge(*times, better=Better.LESS) == judge(*rates, better=Better.MORE)
    assert cost_range(*times, better=Better.LESS) == pytest.approx(cost_range(*rates, better=Better.MORE))


def test_more_tokens_per_second_are_faster_and_fewer_slower():
    assert judge(told(1.1), None, better=Better.MORE)[0] is Verdict.FASTER
    assert judge(told(0.9), None, better=Better.MORE)[0] is Verdict.SLOWER


# B51: a relative and an absolute floor.
def test_a_change_below_the_floor_is_none_however_sure():
    verdict, reason = judge(told(1.10, spread=0.001), None, floor=0.2)
    assert (verdict, reason) == (Verdict.NO_DIFFERENCE, "the change of 10 % is less than a call's own overhead")
    assert judge(told(1.30, spread=0.001), None, floor=0.2)[0] is Verdict.SLOWER


def test_range_spans_every_interval_there_is():
    assert cost_range(told(1.2, 0.05), told(1.1, 0.02)) == pytest.approx((log(1.1) - 0.02, log(1.2) + 0.05))
    assert cost_range(told(1.2, 0.05), Difference(ratio=9.0, level=0.95)) == pytest.approx((log(1.2) - 0.05, log(1.2) + 0.05))
    assert cost_range(Difference(ratio=1.5, level=0.95), None) is None


def test_false_calls_are_as_rare_as_promised_where_runs_have_moods():
    # Each run has a mood of its own for every row and control, five times what the spread inside it says.
    rng = np.random.default_rng(7)
    rows, cases, blocks, spread, mood, trials = 12, 6, 8, 0.02, 0.035, 400
    wrong = 0
    for _ in range(trials):
        moves = rng.normal(0, mood * sqrt(2), (cases, 2)) + rng.normal(0, spread / sqrt(blocks) * sqrt(2), (cases, 2))
        drift = drift_of(moves.tolist())
        calls = 0
        for _ in range(rows):
            before, after = (of(rng.normal(rng.normal(0, mood), spread, blocks), widening=2.0) for _ in range(2))
            calls += difference(before, after, drift, level=1 - 0.05 / rows).is_told
        wrong += calls > 0
    assert wrong / trials <= 0.05


def test_interval_of_one_run_alone_calls_what_moods_did():
    # The same noise judged by the spread inside the runs: what the drift is for.
    rng = np.random.default_rng(7)
    calls = 0
    for _ in range(200):
        before, after = (of(rng.normal(rng.normal(0, 0.035), 0.02, 8)) for _ in range(2))
        calls += difference(before, after, STILL, level=0.95).is_told
    assert calls / 200 > 0.3


def test_intervals_of_the_package_are_read():
    interval = Interval(estimate=2.0, low=2.0, high=2.0, unit=Unit("process", 3))
    assert reading(interval) == Reading(log=log(2.0), error=0.0, freedom=2)
