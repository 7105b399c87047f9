"""A chain of random linear layers multiplies a signal by sqrt(d) times the entries' standard deviation, and a norm stops that."""

from __future__ import annotations

import pytest

from normbench.published import claim
from normbench.studies.drift import DRIFT, WIDTH
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return {(one.setting["entries"], one.setting["norm"]): one for one in observed(DRIFT, Scale(seeds=1))}


@pytest.mark.parametrize("entries", [0.3, 0.3 / WIDTH**0.5, 1.2])
def test_factor_of_a_layer_is_sqrt_d_times_the_entries(found, entries):
    assert found[entries, "none"].value("factor") == pytest.approx(entries * WIDTH**0.5, rel=0.02)


def test_published_list_is_that_of_entries_divided_by_sqrt_d(found):
    printed = claim("drift-decay-scale-0-3").published
    fitting, stated = found[0.3 / WIDTH**0.5, "none"], found[0.3, "none"]
    assert all(abs(fitting.value(name) - value) < 0.1 for name, value in printed.items())
    assert stated.value("layer_8") > 1e3


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_norm_pins_every_layer_to_sqrt_d(found, norm):
    sizes = [y for x, y in found[0.3, norm].curve("token norm") if x]
    assert sizes == pytest.approx([WIDTH**0.5] * 20, rel=1e-3)


def test_findings_have_the_published_row():
    says = DRIFT.says(observed(DRIFT, Scale(seeds=2)))
    assert any(row[0] == "0.3, as published" for row in says.tables[0].rows)
    # 8.0, 2.45, 0.77, 0.25: each layer leaves 0.3 of the one before.
    assert any("falls to 0.3 times with each layer" in sentence for sentence in says.sentences)
    assert {len(row) for row in says.tables[0].rows} == {len(says.tables[0].columns)}
