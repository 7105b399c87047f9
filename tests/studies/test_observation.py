"""Trials are named by what they vary and their seed; results that are no numbers survive strict JSON."""

from __future__ import annotations

import json
from math import inf, isnan, nan

import msgspec
import pytest

from normbench.studies.observation import Observation, Trial, encoded

TRIAL = Trial(setting={"norm": "none", "depth": 20}, seed=3)


def test_key_names_the_setting_in_alphabetical_order_and_the_seed():
    assert TRIAL.key == "depth=20 norm=none seed=3"


def test_observation_of_a_trial_has_its_key():
    assert Observation.of("a study", TRIAL).key == TRIAL.key


@pytest.mark.parametrize(("value", "word"), [(nan, "NaN"), (inf, "inf"), (-inf, "-inf"), (2.5, 2.5)])
def test_what_is_not_finite_becomes_a_word(value, word):
    assert encoded(value) == word


def test_nan_is_a_result_that_a_line_of_strict_json_keeps():
    found = Observation.of("a study", TRIAL, values={"loss": nan, "step": inf}, curves={"loss": [(0, 4.2), (10, nan)]})
    line = msgspec.json.encode(found)
    json.loads(line, parse_constant=pytest.fail)
    again = msgspec.json.decode(line, type=Observation)
    assert again == found
    assert isnan(again.value("loss"))
    assert again.value("step") == inf
    assert again.curve("loss")[0] == (0.0, 4.2)


def test_matching_asks_for_every_value():
    found = Observation.of("a study", TRIAL)
    assert found.matches(depth=20)
    assert found.matches(depth=20, norm="none")
    assert not found.matches(depth=20, norm="layer_norm")
    assert not found.matches(width=64)
