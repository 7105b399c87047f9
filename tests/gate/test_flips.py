"""The p of sign flips is exact, whatever the distribution, and the trimmed mean is Yuen's."""

from __future__ import annotations

from itertools import product
from math import isinf, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from normbench.gate.flips import CLIPPED, flip_p, locate, shift_found

values = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=11)


def counted_p(logs):
    """Go through all flips one by one."""
    limit = CLIPPED * np.median(np.abs(logs))
    clipped = np.clip(logs, -limit, limit) if limit else np.array(logs)
    sums = [np.dot(signs, np.abs(clipped)) for signs in product([-1, 1], repeat=len(logs))]
    return float(np.mean(np.array(sums) >= clipped.sum() - 1e-9))


# Whole numbers: sums tie often, and a tie counted the wrong way makes p too small.
@given(values)
def test_p_is_the_share_of_all_flips(logs):
    assert flip_p(logs) == counted_p(logs)


@given(values, st.floats(1e-9, 1e9))
def test_p_does_not_depend_on_the_unit(logs, unit):
    assert flip_p([unit * value for value in logs]) == pytest.approx(flip_p(logs), abs=1e-12)


@given(values)
def test_either_direction_counts_the_values_as_they_are(logs):
    # Both tails hold the observed sum, so together they are more than all.
    assert flip_p(logs) + flip_p([-value for value in logs]) > 1


# 12 and 26: the first look that can call a change, and the last; 40: the most blocks there can be; 1 and 5: odd halves.
@pytest.mark.parametrize("count", [1, 5, 12, 26, 40])
def test_smallest_p_is_that_of_values_all_above_zero(count):
    assert flip_p(np.linspace(1, 2, count)) == 2.0**-count


def test_nothing_is_no_evidence():
    assert flip_p([0.0] * 8) == 1


def test_one_wild_value_does_not_hide_a_change():
    logs = [0.05] * 25 + [-0.9]
    assert flip_p(logs) < 1e-5
    assert flip_p([0.05] * 25) < flip_p(logs)


# Each with its own reason to fool a test of Student's kind: no variance, two layouts, a size of its own for every value.
KINDS = {
    "student of 2": lambda rng, n: rng.standard_t(2, n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "two layouts": lambda rng, n: rng.choice([-1.0, 1.0], n) + 0.1 * rng.standard_normal(n),
    "growing": lambda rng, n: 2.0 ** np.arange(n) * rng.standard_normal(n),
}


@pytest.mark.parametrize("kind", KINDS)
def test_level_is_exact_for_whatever_is_symmetric(kind):
    # 8 values have 256 flips: p is at most 13/256 in 13 of 256 samples, unless values tie. 4000 samples, bounds of 4 sigma.
    rng = np.random.default_rng(8)
    level = 13 / 256
    called = sum(flip_p(KINDS[kind](rng, 8)) <= level for _ in range(4000))
    assert abs(called - 4000 * level) <= 4 * sqrt(4000 * level)


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=30))
def test_centre_is_the_trimmed_mean(logs):
    found = locate(logs)
    assert found.centre == pytest.approx(scipy_stats.trim_mean(logs, 0.2), abs=1e-12)
    assert found.count == len(logs)


@given(st.lists(st.floats(-1, 1), min_size=5, max_size=30), st.lists(st.floats(-1, 1), min_size=5, max_size=30))
def test_error_is_yuens(one, other):
    # Against scipy's test of two trimmed means, whose error is that of both together.
    left, right = locate(one), locate(other)
    assume(left.error > 1e-6 and right.error > 1e-6)
    result = scipy_stats.ttest_ind(one, other, equal_var=False, trim=0.2)
    assert (left.centre - right.centre) / sqrt(left.error**2 + right.error**2) == pytest.approx(result.statistic, rel=1e-9, abs=1e-9)


def test_spread_is_a_standard_deviation_for_normal_values():
    rng = np.random.default_rng(0)
    found = [locate(rng.normal(0, 0.006, 26)).spread for _ in range(400)]
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(0.006, rel=0.1)


# 8 and 26 blocks, first and last look; the trimmed mean's interval is meant to hold for normal and heavy-tailed noise alike.
@pytest.mark.parametrize("count", [8, 26])
@pytest.mark.parametrize("noise", [np.random.Generator.standard_normal, lambda rng, n: rng.standard_t(2, n)])
def test_bound_fails_no_more_often_than_said(count, noise):
    rng = np.random.default_rng(1)
    runs, tail = 4000, 0.01
    failed = sum(one.centre + one.half_width(tail) < 0 for one in (locate(noise(rng, count)) for _ in range(runs)))
    assert failed <= runs * tail + 4 * sqrt(runs * tail)


# (12, 2.8e-4) asks for all values above zero; (18, 1e-4) is in between; (26, 1e-4) is by formula.
@pytest.mark.parametrize(("count", "threshold"), [(12, 2.8e-4), (18, 1e-4), (26, 1e-4)])
def test_shift_that_is_said_to_be_found_is_found(count, threshold):
    shift = shift_found(count, threshold, 0.9)
    rng = np.random.default_rng(99)
    found = sum(flip_p(rng.standard_normal(count) + shift) <= threshold for _ in range(600)) / 600
    assert 0.83 <= found <= 0.96


def test_shift_is_infinite_where_no_shift_would_do():
    assert isinf(shift_found(10, 1e-4, 0.9))
