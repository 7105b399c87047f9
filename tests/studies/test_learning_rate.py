"""A window of rates is found from what trained, and is open where the scan ended first."""

from __future__ import annotations

from math import nan

import pytest

from normbench.studies.learning_rate import LEARNING_RATE, is_safe, window
from normbench.studies.observation import Observation, Trial
from normbench.studies.study import Scale

from .running import observed

pytestmark = pytest.mark.usefixtures("one_thread")


def run(rate, *ends):
    trials = [Trial(setting={"rate": rate}, seed=seed) for seed in range(len(ends))]
    return [Observation.of("s", one, values={"loss_0": 4.2, "final_loss": end}) for one, end in zip(trials, ends, strict=True)]


def test_rate_is_safe_where_most_seeds_end_well_below_their_start():
    assert is_safe(run(1e-3, 2.4, 2.5, nan))
    assert not is_safe(run(1e-3, 2.4, nan, nan))
    assert not is_safe(run(1e-3, 4.1, 4.15, 2.4))


def test_window_is_the_longest_stretch_of_safe_rates():
    scan = [*run(1e-5, 4.1), *run(1e-4, 2.9), *run(1e-3, 2.5), *run(1e-2, nan), *run(1e-1, 2.9)]
    found = window(scan)
    assert (found.low, found.high) == (1e-4, 1e-3)
    assert found.decades == pytest.approx(1)
    assert not found.is_open_below
    assert not found.is_open_above


def test_window_that_reaches_the_end_of_the_scan_is_open_there():
    found = window([*run(1e-4, 2.9), *run(1e-3, 2.5)])
    assert found.is_open_below
    assert found.is_open_above
    assert "or more" in found.text


def test_no_safe_rate_is_no_window():
    found = window([*run(1e-4, nan), *run(1e-3, 4.2)])
    assert found.decades == 0
    assert found.text == "none"


def test_scan_goes_beyond_the_published_rates_and_warm_up_has_arms_of_its_own():
    trials = LEARNING_RATE.plan(Scale()).trials
    rates = {one.setting["rate"] for one in trials}
    assert min(rates) < 1e-4
    assert max(rates) > 1e-2
    assert {one.setting["warmup"] for one in trials} == {0, 1000}
    assert {(one.setting["depth"], one.setting["scheme"]) for one in trials} == {(d, s) for d in (12, 30) for s in ("pre", "post")}


def test_published_rates_have_seeds_that_make_an_interval_and_all_have_as_many_as_are_asked_for():
    def seeds(scale, **setting):
        trials = [one for one in LEARNING_RATE.plan(scale).trials if setting.items() <= one.setting.items()]
        return {one.seed for one in trials}

    assert seeds(Scale(), warmup=0, rate=1e-3, depth=30) == {0, 1, 2}
    assert seeds(Scale(), warmup=1000, rate=1e-3, depth=12, scheme="post") == {0, 1, 2}
    assert seeds(Scale(), warmup=0, rate=1e-1) == seeds(Scale(), warmup=1000, depth=30) == {0}
    assert seeds(Scale(seeds=2), warmup=1000) == {0, 1}


def test_findings_have_a_window_per_network():
    found = observed(LEARNING_RATE, Scale(quick=True, steps=3))
    says = LEARNING_RATE.says(found)
    assert [row[0] for row in says.tables[1].rows] == ["post 12", "post 12, warm-up 1", "pre 12", "pre 12, warm-up 1"]
    assert {len(row) for row in says.tables[0].rows} == {len(says.tables[0].columns)}


def test_published_losses_stand_under_those_of_the_same_network():
    says = LEARNING_RATE.says(observed(LEARNING_RATE, Scale(quick=True, steps=3), warmup=0))
    rows = {row[0]: row[1:] for row in says.tables[0].rows}
    # Quick rates are 1e-4, 1e-3 and 1e-2.
    assert rows["post 12, published"] == ("2.96", "NaN", "NaN")
    assert rows["pre 12, published"] == ("2.85", "2.38", "2.41")
