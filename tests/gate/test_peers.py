"""Other tools' rules say what those tools say. The figures are from asv 0.6.6, pyperf 2.11.0 and pytest-benchmark 5.3.1 themselves."""

from __future__ import annotations

import math

import pytest
from pytest_benchmark.utils import parse_compare_fail

from normbench.gate.peers import SOURCES, Call, Rule, calls, judge, mann_whitney_p

TEN = (
    [10.9, 8.6, 9.3, 10.4, 9.0, 9.9, 10.2, 9.2, 8.7, 10.2],
    [12.3, 10.7, 11.0, 12.9, 10.7, 10.8, 13.7, 9.8, 12.1, 9.3],
)
EIGHT = ([12.3, 9.3, 10.4, 10.1, 10.8, 8.6, 9.6, 9.2], [10.2, 10.5, 10.8, 11.0, 10.4, 11.7, 10.8, 8.1])
THIRTY = tuple(
    [float(value) for value in values.split()]
    for values in (
        "11.3 11.4 10.1 9.2 8.9 10.0 9.0 8.6 10.2 10.1 10.5 9.1 10.0 9.9 8.5 "
        "10.5 10.3 12.4 10.2 9.9 11.2 10.2 10.9 9.6 10.2 11.0 10.7 10.1 8.9 10.4",
        "11.4 12.0 11.5 12.4 11.2 11.5 12.0 10.2 10.9 10.8 13.3 11.2 12.0 11.9 11.0 "
        "9.7 12.3 10.9 12.0 10.0 10.9 12.6 12.7 10.0 10.0 11.3 12.0 11.5 11.6 10.3",
    )
)


# Exact without ties broken in favour, exact with them, and the normal approximation above 20 a side.
@pytest.mark.parametrize(
    ("samples", "expected"), [(TEN, 0.005196042347745101), (EIGHT, 0.32820512820512837), (THIRTY, 2.0634281302169254e-05)]
)
def test_mann_whitney_is_asvs(samples, expected):
    assert mann_whitney_p(*samples) == pytest.approx(expected, rel=1e-9)
    assert mann_whitney_p(*reversed(samples)) == pytest.approx(expected, rel=1e-9)


def test_asv_wants_factor_and_significance():
    # TEN: medians 9.55 and 10.9, so 1.14 times, but p 0.005 is above asv's 0.002. THIRTY: p 2e-5 and 1.13 times.
    assert judge(Rule.ASV, *TEN) is Call.GREEN
    assert judge(Rule.ASV, *THIRTY) is Call.RED
    faster = [value * 0.98 for value in THIRTY[1]]
    assert judge(Rule.ASV, THIRTY[0], [value * 0.95 for value in THIRTY[1]]) is Call.GREEN
    assert judge(Rule.ASV_TEST, THIRTY[0], faster) is Call.RED
    assert judge(Rule.ASV_TEST, THIRTY[1], THIRTY[0]) is Call.GREEN, "faster is not red"


def test_asv_goes_by_the_factor_alone_with_one_sample():
    assert judge(Rule.ASV, [1.0], [1.11]) is Call.RED
    assert judge(Rule.ASV, [1.0], [1.09]) is Call.GREEN


def test_asvs_other_rule_for_few_samples_is_not_made_up():
    # 5 a side have 252 orderings, 6 a side 924: the latter reaches 0.002.
    assert judge(Rule.ASV, [1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]) is Call.UNKNOWN
    assert judge(Rule.ASV, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], [2.0, 2.1, 2.2, 2.3, 2.4, 2.5]) is Call.GREEN, "p is 2 / 924"
    assert judge(Rule.ASV, [1.0 + 0.1 * n for n in range(7)], [2.0 + 0.1 * n for n in range(7)]) is Call.RED


@pytest.mark.parametrize(
    ("rule", "option"),
    [
        (Rule.PYTEST_BENCHMARK_MIN, "min:5%"),
        (Rule.PYTEST_BENCHMARK_MEDIAN, "median:5%"),
        (Rule.PYTEST_BENCHMARK_MEAN, "mean:5%"),
    ],
)
@pytest.mark.parametrize("factor", [0.9, 1.0, 1.0499, 1.0501, 2.0])
def test_pytest_benchmark_is_asked_itself(rule, option, factor):
    check = parse_compare_fail(option)
    theirs = check.fails(current={check.field: 3.0 * factor}, compared={check.field: 3.0})
    # Samples whose min, median and mean are all the same.
    assert (judge(rule, [3.0] * 5, [3.0 * factor] * 5) is Call.RED) == bool(theirs)


def test_each_statistic_of_pytest_benchmark_is_its_own():
    base, head = [1.0, 2.0, 3.0], [1.0, 2.2, 3.0]
    assert [judge(rule, base, head) for rule in (Rule.PYTEST_BENCHMARK_MIN, Rule.PYTEST_BENCHMARK_MEDIAN, Rule.PYTEST_BENCHMARK_MEAN)] == [
        Call.GREEN,
        Call.RED,
        Call.GREEN,
    ]


def test_github_action_alerts_beyond_twice_the_mean():
    assert judge(Rule.GITHUB_ACTION_BENCHMARK, [1.0, 3.0], [1.0, 6.9]) is Call.GREEN
    assert judge(Rule.GITHUB_ACTION_BENCHMARK, [1.0, 3.0], [1.0, 7.1]) is Call.RED


def test_pyperf_is_red_when_significantly_slower():
    # pyperf's t for TEN is 3.357 at 18 degrees of freedom (2.101), for EIGHT 0.725 at 14 (2.145), for THIRTY 5.455 at 58 (2.009).
    assert judge(Rule.PYPERF, *TEN) is Call.RED
    assert judge(Rule.PYPERF, *EIGHT) is Call.GREEN
    assert judge(Rule.PYPERF, *THIRTY) is Call.RED
    assert judge(Rule.PYPERF, *reversed(TEN)) is Call.GREEN, "faster"


# Degrees of freedom and pyperf's critical value there: in its table, on a step, between steps, at its end, and beyond.
@pytest.mark.parametrize(
    ("freedom", "critical"), [(2, 4.303), (18, 2.101), (30, 2.042), (38, 2.042), (58, 2.009), (100, 1.984), (200, 1.960)]
)
def test_pyperfs_threshold(freedom, critical):
    count = freedom // 2 + 1
    # Half of each side one up, the other one down (and one in the middle when odd): the variance is known.
    shape = [1.0, -1.0] * (count // 2) + [0.0] * (count % 2)
    error = math.sqrt(2 * sum(value**2 for value in shape) / freedom / count * 2)
    base = [10.0 + value for value in shape]
    for factor, expected in ((0.9999, Call.GREEN), (1.0001, Call.RED)):
        assert judge(Rule.PYPERF, base, [value + factor * critical * error for value in base]) is expected


def test_pyperf_takes_what_it_cannot_test_for_significant():
    assert judge(Rule.PYPERF, [1.0], [1.001]) is Call.RED
    assert judge(Rule.PYPERF, [1.0, 1.0], [1.001, 1.001]) is Call.RED, "no spread"
    assert judge(Rule.PYPERF, [1.0, 2.0], [1.5, 1.6, 1.7]) is Call.RED, "unequal numbers"
    assert judge(Rule.PYPERF, [1.0], [0.999]) is Call.GREEN


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("odd", [[], [0.0], [1.0, math.nan], [math.inf], [-1.0]])
def test_what_is_no_time_is_not_judged(rule, odd):
    assert judge(rule, odd, [1.0] * 8) is Call.UNKNOWN
    assert judge(rule, [1.0] * 8, odd) is Call.UNKNOWN


@pytest.mark.parametrize("rule", Rule)
def test_no_rule_is_red_for_the_same_samples(rule):
    assert judge(rule, TEN[0], TEN[0]) is Call.GREEN


def test_all_rules_are_asked_and_cited():
    assert list(calls(*THIRTY)) == list(Rule)
    assert SOURCES.keys() == set(Rule)
    assert calls(*THIRTY)[Rule.GITHUB_ACTION_BENCHMARK] is Call.GREEN
