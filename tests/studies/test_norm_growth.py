"""Pre-LN's trunk grows; Post-LN's and DeepNorm's do not; a final norm brings it back."""

from __future__ import annotations

import pytest

from normbench.published import claim
from normbench.studies.norm_growth import NORM_GROWTH, WIDTH
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return observed(NORM_GROWTH, Scale(seeds=1))


def scheme(found, name):
    return next(one for one in found if one.matches(scheme=name))


def test_published_trunk_is_that_of_seed_11_to_all_digits(found):
    printed = claim("residual-stream-norms-12-blocks").published
    pre = scheme(found, "pre")
    assert {name: round(pre.value(name), 2) for name in printed} == printed


@pytest.mark.parametrize("name", ["post", "deep_norm"])
def test_norm_on_the_trunk_pins_it(found, name):
    assert scheme(found, name).value("block_12") == pytest.approx(WIDTH**0.5, rel=1e-3)


def test_final_norm_restores_sqrt_d(found):
    assert scheme(found, "pre").value("after_final_norm") == pytest.approx(WIDTH**0.5, rel=1e-3)


def test_exits_of_one_block_are_the_published_ones(found):
    exits = next(one for one in found if one.matches(what="exit of one block"))
    assert round(exits.value("post"), 4) == 8.0
    assert round(exits.value("pre"), 4) == 8.3924


def test_findings_have_a_row_per_scheme(found):
    says = NORM_GROWTH.says(found)
    assert len(says.tables[0].rows) == 5
