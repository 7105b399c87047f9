"""A figure over seeds comes with an interval, and with how many seeds were lost."""

from __future__ import annotations

from math import inf, nan

import pytest

from normbench.studies.spread import spread_of


def test_interval_is_students():
    found = spread_of([1.0, 2.0, 3.0])
    assert found.mean == pytest.approx(2.0)
    # t of two degrees of freedom at 97.5 % is 4.303; the standard deviation is 1.
    assert found.high - found.mean == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_one_seed_has_no_interval():
    found = spread_of([2.5])
    assert (found.mean, found.low, found.high) == (2.5, None, None)
    assert found.text() == "2.50"


def test_seeds_that_are_not_finite_are_left_out_and_counted():
    found = spread_of([1.0, 3.0, nan])
    assert found.mean == pytest.approx(2.0)
    assert found.is_finite
    assert found.text(1).endswith("NaN in 1 of 3")


def test_without_a_finite_seed_there_is_no_mean():
    found = spread_of([nan, inf])
    assert found.mean is None
    assert not found.is_finite
    assert found.text() == "NaN (2 of 2)"


def test_no_seed_is_refused():
    with pytest.raises(ValueError, match="no seed"):
        spread_of([])
