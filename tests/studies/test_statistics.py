"""RMSNorm keeps what the mean is of the root mean square; LayerNorm keeps none of it."""

from __future__ import annotations

import pytest

from normbench.studies.statistics import STATISTICS
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return {(one.setting["norm"], one.setting["mean"]): one for one in observed(STATISTICS, Scale(seeds=1))}


def test_published_figures_are_those_of_seed_7(found):
    rms, layer = found["rms_norm", 1.5], found["layer_norm", 1.5]
    assert round(rms.value("row_mean"), 4) == 0.4475
    assert round(rms.value("row_mean_sd"), 4) == 0.0324
    assert round(rms.value("row_sd"), 4) == 0.8944
    assert round(layer.value("row_sd"), 4) == 1.0010
    assert layer.value("row_mean") == pytest.approx(0, abs=1e-6)


def test_mean_follows_theory_and_rises_with_the_inputs(found):
    means = [found["rms_norm", mean].value("row_mean") for mean in (0.0, 0.5, 1.5, 5.0, 50.0)]
    assert means == sorted(means)
    assert means == pytest.approx([found["rms_norm", mean].value("row_mean_in_theory") for mean in (0.0, 0.5, 1.5, 5.0, 50.0)], abs=0.002)


def test_estimator_that_divides_by_d_gives_layer_norm_1(found):
    assert found["layer_norm", 1.5].value("row_sd_biased") == pytest.approx(1, abs=1e-5)


def test_findings_are_whole():
    says = STATISTICS.says(observed(STATISTICS, Scale(seeds=2)))
    assert {len(row) for row in says.tables[0].rows} == {len(says.tables[0].columns)}
    assert len(says.tables[0].rows) == 10
