"""Parameters are counted on modules, reductions on operators that really run."""

from __future__ import annotations

import pytest

from normbench.models.networks import PRESETS, networks
from normbench.studies.accounting import ACCOUNTING, count_reductions
from normbench.studies.observation import Trial
from normbench.studies.study import Scale

from .running import observed


def test_reductions_are_counted_as_they_run():
    assert count_reductions(lambda x: x + 1, 8) == 0
    assert count_reductions(lambda x: x.sum(-1) + x.mean(-1), 8) == 2


def test_published_counts_of_32_layers_hold_without_the_final_norm():
    (one,) = observed(ACCOUNTING, what="stack")
    assert one.value("layer_norm_in_blocks") == 524288
    assert one.value("rms_norm_in_blocks") == 262144
    assert one.value("layer_norm_with_final") == 532480
    assert one.value("layer_norm_reductions_per_layer") == 2 * one.value("rms_norm_reductions_per_layer") == 4


def test_network_is_counted_by_the_norms_found_in_it():
    one = ACCOUNTING.observe(Trial(setting={"what": "network", "network": "gpt2", "preset": "tiny"}, seed=0), {})
    assert one.value("norms") == 5
    assert one.value("norm_parameters") == one.value("as_layer_norm") == 2 * one.value("as_rms_norm")
    assert one.value("parameters_saved_percent") == pytest.approx(100 * one.value("as_rms_norm") / one.value("parameters"))


def test_preset_too_large_for_memory_is_counted_without_it():
    tiny, full = (
        ACCOUNTING.observe(Trial(setting={"what": "network", "network": "llama", "preset": preset}, seed=0), {}) for preset in PRESETS
    )
    assert full.value("norms") == tiny.value("norms")
    assert full.value("parameters") > 100 * tiny.value("parameters")
    assert full.value("norm_parameters") == full.value("norms") * 4096


def test_every_network_is_planned():
    planned = {one.setting.get("network") for one in ACCOUNTING.plan(Scale()).trials}
    assert {one.name for one in networks()} <= planned
