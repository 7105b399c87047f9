"""Axes hold whole intervals; one that would press everything together is cut, and an arrow says so."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from normbench.drawing.reach import limits, log_limits, log_ticks, mark_cut


def test_limits_hold_values_and_whole_intervals():
    low, high = limits([10.0, 20.0], [8.0, 26.0], least=1.0)
    assert low < 8
    assert 26 < high < 28


@pytest.mark.parametrize("end", [1e3, 1e9])
def test_an_interval_reaches_no_further_beyond_the_values_than_their_span(end):
    low, high = limits([10.0, 20.0], [-end, end], least=1.0)
    assert (low, high) == pytest.approx((-1.5, 31.5))


def test_limits_of_what_is_all_the_same_are_apart():
    assert limits([5.0, 5.0], [], least=2.0) == pytest.approx((4.9, 5.1))
    assert limits([5.0], [0.0, 100.0], least=2.0) == pytest.approx((2.8, 7.2))


def test_logarithmic_limits_reach_a_decade_beyond_the_values_at_most():
    low, high = log_limits([100.0], [50.0, 200.0])
    assert low < 50
    assert high > 200
    low, high = log_limits([100.0], [0.0, 1e-9, 1e9])
    assert 5 < low < 10
    assert 1000 < high < 2000


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (2, 60, [2, 5, 10, 20, 50]),
        (0.5, 2e6, [1e1, 1e3, 1e5]),
        (20400, 52000, [30000, 40000, 50000]),
        (1.1, 1.3, [1.1, 1.15, 1.2, 1.25, 1.3]),
    ],
)
def test_ticks_lie_within_and_there_are_two_at_least(low, high, ticks):
    assert log_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("along", ["x", "y"])
def test_each_end_beyond_an_axis_has_an_arrow_at_its_edge(along):
    axis = Figure().subplots()
    axis.set_xlim(0, 10)
    axis.set_ylim(10, 0)
    assert mark_cut(axis, [(1, 2, 8), (2, 4, 11), (3, -1, 12)], "red", along=along) == 3
    places = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axis.lines]
    assert (places if along == "y" else [place[::-1] for place in places]) == [(2, 10), (3, 0), (3, 10)]
    assert [line.get_marker() for line in axis.lines] == (["^", "v", "^"] if along == "y" else [">", "<", ">"])
