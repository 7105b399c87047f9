"""Observations that differ in their seed only are put together."""

from __future__ import annotations

from math import nan

import pytest

from normbench.studies.observation import Observation, Trial
from normbench.studies.over_seeds import by, chosen, count_true, line, spread


def observation(seed, end, *, depth=6):
    return Observation.of("s", Trial(setting={"depth": depth}, seed=seed), values={"end": end}, curves={"loss": [(0, 4.0), (10, end)]})


SEEDS = [observation(0, 2.0), observation(1, 3.0), observation(0, 1.0, depth=12)]


def test_observations_are_chosen_and_grouped_by_their_setting():
    assert chosen(SEEDS, depth=12) == [SEEDS[2]]
    assert by(SEEDS, "depth") == {6: SEEDS[:2], 12: SEEDS[2:]}
    assert by(SEEDS, "width") == {}


def test_spread_is_over_seeds():
    assert spread(chosen(SEEDS, depth=6), "end").mean == pytest.approx(2.5)


def test_line_has_the_mean_of_each_step_and_no_point_where_no_seed_is_finite():
    drawn = line("loss", [observation(0, 2.0), observation(1, 3.0)], "loss")
    assert [(point.x, point.y) for point in drawn.points] == [(0.0, 4.0), (10.0, 2.5)]
    assert drawn.points[1].low < 2.5 < drawn.points[1].high
    assert [point.x for point in line("loss", [observation(0, nan)], "loss").points] == [0.0]


def test_counts_are_said_in_words():
    assert count_true([True, False, True]) == "2 of 3 seeds"
    assert count_true([True]) == "1 of 1 seed"
