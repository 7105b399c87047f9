"""Independent figures: half-widths add as squares, and nothing is certain that rests on something without an interval."""

from math import sqrt

import numpy as np
import pytest

from normbench.quantities.estimate import Estimate
from normbench.quantities.stats import Interval, Unit

TEN, TWO = Estimate(value=10.0, half=0.3), Estimate(value=2.0, half=0.04)
UNKNOWN = Estimate(value=1.0)
OPERATIONS = ["__add__", "__sub__", "__mul__", "__truediv__"]


def test_sums_and_differences_add_half_widths_as_squares():
    assert Estimate(value=12.0, half=pytest.approx(sqrt(0.3**2 + 0.04**2))) == TEN + TWO
    assert Estimate(value=8.0, half=pytest.approx(sqrt(0.3**2 + 0.04**2))) == TEN - TWO
    assert Estimate.total([]) == Estimate(value=0, half=0.0)


# The first-order formulas against what a simulation of the same normal figures shows.
@pytest.mark.parametrize("name", OPERATIONS)
def test_intervals_are_those_of_a_simulation(name):
    draw = np.random.default_rng(0)
    first, second = (draw.normal(one.value, one.half / 1.96, 200_000) for one in (TEN, TWO))
    found = getattr(TEN, name)(TWO)
    assert found.value == pytest.approx(float(np.mean(getattr(first, name)(second))), rel=2e-3)
    assert found.half == pytest.approx(1.96 * float(np.std(getattr(first, name)(second))), rel=0.02)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_rests_on_a_figure_without_an_interval_has_none(name):
    assert getattr(TEN, name)(UNKNOWN).half is None
    assert (UNKNOWN.low, UNKNOWN.high, UNKNOWN.is_resolved) == (None, None, False)


def test_a_figure_is_resolved_when_its_interval_leaves_out_zero():
    assert Estimate(value=-0.02, half=0.01).is_resolved
    assert not Estimate(value=-0.02, half=0.02).is_resolved


def test_an_interval_counts_by_its_wider_side():
    interval = Interval(estimate=1.0, low=0.8, high=1.3, unit=Unit("process", 5))
    assert Estimate.of(interval) == Estimate(value=1.0, half=pytest.approx(0.3))
    assert Estimate.of(Interval(estimate=1.0, low=None, high=None, unit=Unit("process", 1))).half is None
