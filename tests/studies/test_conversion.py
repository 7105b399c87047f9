"""A copied weight changes a model; folding does not, where the neighbours are known; fine-tuning mends a copy."""

from __future__ import annotations

import pytest

from normbench.studies.conversion import CONVERSION
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return {
        (one.setting["network"], one.setting["method"]): one for one in observed(CONVERSION, Scale(quick=True, steps=5), network="gpt2")
    }


def test_copy_changes_the_logits(found):
    assert found["gpt2", "copy"].value("largest_change_in_sd") > 0.1


def test_folding_is_exact_to_rounding_in_a_pre_ln_model(found):
    fold = found["gpt2", "fold"]
    assert fold.value("largest_change") < 1e-12
    assert fold.value("exact_norms") == fold.value("norms") == 5


def test_fine_tuning_brings_a_copy_nearer(found):
    (first, before), *_, (last, after) = found["gpt2", "copy"].curve("divergence")
    assert (first, last) == (0, 5)
    assert 0 < found["gpt2", "copy"].value("kl_after_tuning") == after < before


def test_findings_have_a_row_per_method(found):
    says = CONVERSION.says(list(found.values()))
    assert [row[1] for row in says.tables[0].rows] == ["copy", "fold"]
