"""A study says truly which numbers it has a use for."""

from __future__ import annotations

import pytest

from normbench.studies.catalogue import STUDIES
from normbench.studies.study import Scale


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_numbers_that_a_study_has_a_use_for_change_its_plan(study):
    plain = study.plan(Scale(quick=True))
    assert (study.plan(Scale(quick=True, steps=3)) != plain) is study.has_steps
    assert (study.plan(Scale(quick=True, seeds=2)) != plain) is study.has_seeds


def test_a_number_that_one_of_several_studies_uses_is_taken():
    Scale(steps=3, seeds=2).refuse_idle(STUDIES)
