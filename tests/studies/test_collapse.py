"""Without norms and with much too large a rate a deep network breaks; with them it does not; the plan holds what was published."""

from __future__ import annotations

from math import inf

import msgspec
import pytest

from normbench.studies.collapse import COLLAPSE, SETUPS
from normbench.studies.observation import Trial
from normbench.studies.study import Scale

from .running import observed

pytestmark = pytest.mark.usefixtures("one_thread")


def trial(setup="as published", *, norm="none", rate=1e-3, depth=6):
    return Trial(setting={"depth": depth, "norm": norm, "rate": rate, "setup": setup}, seed=0)


def test_sgd_without_any_norm_breaks_at_once_and_with_norms_does_not():
    bare = COLLAPSE.observe(trial("SGD, no final norm", rate=1.0, depth=12), {"steps": 12})
    normed = COLLAPSE.observe(trial("SGD", norm="layer_norm", rate=1.0, depth=12), {"steps": 12})
    assert bare.value("first_nonfinite") < 12
    assert normed.value("first_nonfinite") == inf


def test_trunk_without_norms_grows_faster_than_with_them():
    bare, normed = (COLLAPSE.observe(trial(norm=norm, depth=20), {"steps": 1}) for norm in ("none", "rms_norm"))
    assert bare.value("exit_norm_0") > 3 * normed.value("exit_norm_0")


def test_plan_has_every_norm_at_every_depth_and_every_setup():
    trials = COLLAPSE.plan(Scale()).trials
    assert {(one.setting["depth"], one.setting["norm"]) for one in trials} >= {
        (d, n) for d in (6, 12, 20) for n in ("none", "layer_norm", "rms_norm")
    }
    assert {one.setting["setup"] for one in trials} == set(SETUPS)
    assert len({one.key for one in trials}) == len(trials)


def test_findings_say_how_many_seeds_broke():
    found = observed(COLLAPSE, Scale(quick=True, steps=1))
    says = COLLAPSE.says(found)
    assert "NaN in 0 of 1 seed within 1 steps" in says.sentences[0]
    assert says.sentences[1] == "Of 10 settings without norms that were tried these became NaN: none."
    assert all({len(row) for row in table.rows} == {len(table.columns)} for table in says.tables)
    assert len(says.tables[1].rows) == 10


def test_findings_name_the_settings_that_broke():
    found = [
        msgspec.structs.replace(one, values=one.values | {"first_nonfinite": 1.0}) if one.setting["setup"] == "SGD, no final norm" else one
        for one in observed(COLLAPSE, Scale(quick=True, steps=1))
    ]
    assert COLLAPSE.says(found).sentences[1].endswith("became NaN: SGD, no final norm at 0.1 (1 of 1 seeds, from step 1).")
