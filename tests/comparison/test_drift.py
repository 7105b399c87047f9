"""Controls tell how far apart two runs of the same code may be."""

from math import log

import pytest

from normbench.comparison.drift import drift_of


def test_without_controls_nothing_is_known():
    for groups in ([], [[]], [[], []]):
        assert not drift_of(groups).is_known


def test_a_move_that_all_controls_share_counts_as_much_as_one_that_they_do_not():
    together, apart = drift_of([[log(1.1)]] * 4), drift_of([[log(1.1)], [-log(1.1)]] * 2)
    assert together.variance == pytest.approx(apart.variance) == pytest.approx(log(1.1) ** 2)
    assert together.common_ratio == pytest.approx(1.1)
    assert apart.common_ratio == pytest.approx(1.0)


def test_cases_count_alike_however_many_controls_they_have():
    drift = drift_of([[0.1, 0.1, 0.1], [0.2]])
    assert drift.groups == 2
    assert drift.variance == pytest.approx((0.1**2 + 0.2**2) / 2)
    assert drift.mean == pytest.approx(0.15)


def test_controls_that_did_not_move_are_known_not_to_have():
    drift = drift_of([[0.0], [0.0]])
    assert drift.is_known
    assert (drift.variance, drift.typical_share, drift.common_ratio) == (0.0, 0.0, 1.0)
