"""Before the first step Post-LN's gradients are larger near the output beside Pre-LN's, and the kind of norm hardly matters."""

from __future__ import annotations

import pytest

from normbench.studies.init_gradients import INIT_GRADIENTS
from normbench.studies.over_seeds import chosen, spread
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return observed(INIT_GRADIENTS, Scale(seeds=2), depth=12)


def test_pre_ln_falls_toward_the_output_and_post_ln_does_not(found):
    xavier = chosen(found, initialisation="xavier", norm="layer_norm")
    assert spread(chosen(xavier, scheme="pre"), "last_over_first").mean < 0.7
    assert spread(chosen(xavier, scheme="post"), "last_over_first").mean > 0.9


def test_every_layer_has_a_gradient(found):
    assert [len(one.curve("gradient")) for one in found] == [12] * len(found)
    assert all(size > 0 for one in found for _, size in one.curve("gradient"))


def test_variance_is_that_of_all_gradients_by_norm(found):
    pre = chosen(found, scheme="pre", initialisation="default")
    ratio = spread(chosen(pre, norm="rms_norm"), "variance").mean / spread(chosen(pre, norm="layer_norm"), "variance").mean
    assert ratio == pytest.approx(1, abs=0.2)
