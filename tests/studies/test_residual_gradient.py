"""The identity path is a floor under the gradient; without it a deep stack has none left."""

from __future__ import annotations

import pytest

from normbench.studies.residual_gradient import RESIDUAL_GRADIENT
from normbench.studies.study import Scale

from .running import observed


@pytest.fixture(scope="module")
def found():
    return observed(RESIDUAL_GRADIENT, Scale(seeds=3))


def test_terms_add_as_vectors_and_not_as_norms(found):
    for one in (one for one in found if one.matches(what="one block")):
        assert one.value("identity") + one.value("branch") > one.value("total")
        assert one.value("ratio") == pytest.approx(one.value("identity") / one.value("total"))


def test_gradient_vanishes_through_a_plain_stack_and_not_through_one_with_residuals(found):
    def first(residual, depth):
        return min(one.value("first") for one in found if one.matches(what="stack", residual=residual, depth=depth))

    assert first("without", 20) < 1e-9 * first("without", 1)
    assert first("with", 20) > 0.5 * first("with", 1)


def test_findings_put_the_published_norms_beside(found):
    says = RESIDUAL_GRADIENT.says(found)
    assert says.tables[0].rows[0][1] == "13.79"
    assert says.tables[0].rows[0][2] == "13.4215"
    assert all({len(row) for row in table.rows} == {len(table.columns)} for table in says.tables)
