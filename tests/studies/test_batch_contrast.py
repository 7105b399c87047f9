"""BatchNorm sees the batch and what comes later; LayerNorm sees a token."""

from __future__ import annotations

import pytest

from normbench.studies.batch_contrast import BATCH_CONTRAST
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return observed(BATCH_CONTRAST, Scale(seeds=2))


def test_later_token_leaks_through_batch_norm_only(found):
    leak = next(one for one in found if one.matches(what="leak"))
    assert leak.value("batch_norm") > 1e-3
    assert leak.value("layer_norm") == 0.0


def test_batch_of_one_sequence_is_that_sequence(found):
    kept = next(one for one in found if one.matches(what="kept"))
    assert kept.value("keep_1_mean") == kept.value("sequence_1_mean")
    assert kept.value("keep_1_var") == kept.value("sequence_1_var")


def test_noise_of_a_batch_falls_with_its_root(found):
    noise = {one.setting["batch"]: one.value("sd") for one in found if one.matches(what="noise")}
    assert noise[8] / noise[32] == pytest.approx(2, rel=0.1)


def test_findings_put_the_published_figures_beside(found):
    rows = BATCH_CONTRAST.says(found).tables[0].rows
    assert rows[0][:3] == ("keep_4", "0.986", "0.998")
