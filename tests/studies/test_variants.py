"""Every variant is planned at every depth and rate, and is the network that it says."""

from __future__ import annotations

import pytest

from normbench.studies.observation import Trial
from normbench.studies.study import Scale
from normbench.studies.variants import KINDS, VARIANTS

pytestmark = pytest.mark.usefixtures("one_thread")


def start(variant, depth=12):
    trial = Trial(setting={"depth": depth, "variant": variant, "rate": 1e-3}, seed=0)
    return VARIANTS.observe(trial, {"steps": 1})


@pytest.mark.parametrize("variant", ["post", "deep_norm"])
def test_norm_on_the_trunk_pins_its_exit(variant):
    assert start(variant).value("exit_norm_0") == pytest.approx(8, rel=1e-3)


def test_sandwich_adds_a_normed_output_at_each_sub_layer():
    # 24 sub-layers of norm 8 beside an embedding of norm 8, at right angles on average: 8 * sqrt(25).
    assert start("sandwich").value("exit_norm_0") == pytest.approx(40, rel=0.15)


def test_norms_of_queries_and_keys_change_what_is_computed():
    assert start("pre, qk").value("final_loss") != start("pre").value("final_loss")


def test_plan_has_every_variant_at_both_depths():
    trials = VARIANTS.plan(Scale()).trials
    assert {(one.setting["depth"], one.setting["variant"]) for one in trials} == {(depth, kind) for depth in (30, 100) for kind in KINDS}


def test_deepnorm_against_post_ln_at_100_layers_has_seeds_that_make_an_interval():
    def seeds(**setting):
        return {one.seed for one in VARIANTS.plan(Scale()).trials if setting.items() <= one.setting.items()}

    assert seeds(depth=30) == seeds(depth=100, rate=1e-3, variant="post") == seeds(depth=100, rate=1e-3, variant="deep_norm") == {0, 1, 2}
    assert seeds(depth=100, variant="pre") == seeds(depth=100, rate=1e-2) == {0}


def test_findings_say_at_which_rates_each_trains():
    found = [VARIANTS.observe(one, {"steps": 1}) for one in VARIANTS.plan(Scale(quick=True)).trials]
    says = VARIANTS.says(found)
    assert says.sentences == ("At 12 layers, rates at which it trains: " + ", ".join(f"{kind} 0 of 2" for kind in KINDS) + ".",)
    assert [row[1] for row in says.tables[0].rows] == list(KINDS)
