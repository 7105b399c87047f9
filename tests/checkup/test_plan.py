"""What a check-up consists of: every two choices meet, all values come up, and nothing is asked for that cannot be."""

from itertools import product

import pytest

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case, Convention, DType, Norm, Pass
from normbench.cases.grids import NORM_LABELS, GridShape, grid
from normbench.checkup.plan import forms, of_cases, of_shapes

EDGES = grid("edges").shapes


def planned(
    shapes=EDGES,
    norms=tuple(NORM_LABELS),
    passes=tuple(Pass),
    dtypes=tuple(DType),
    values=tuple(Values),
    layouts=tuple(Layout),
):
    return of_shapes(shapes, norm_labels=norms, passes=passes, dtypes=dtypes, values=values, layouts=layouts)


EVERYTHING = planned()


def test_rms_norm_has_a_form_per_convention_and_layer_norm_one():
    assert [(form.norm.value, form.convention.value, form.residual) for form in forms(["layer_norm", "add_rms_norm"])] == [
        ("layer_norm", "torch", False),
        ("rms_norm", "torch", True),
        ("rms_norm", "llama", True),
        ("rms_norm", "gemma", True),
    ]


def met(*keys):
    """Return the combinations of some properties of a case and its layout that are examined."""
    return {tuple(key(one.case, one.trials[0].layout) for key in keys) for one in EVERYTHING}


def form(case, layout):
    return case.norm, case.convention, case.residual


@pytest.mark.parametrize(
    ("key", "values"),
    [
        pytest.param(lambda case, layout: case.dtype, list(DType), id="dtype"),
        pytest.param(lambda case, layout: layout, list(Layout), id="layout"),
        pytest.param(lambda case, layout: case.shape, [entry.shape for entry in EDGES], id="shape"),
        pytest.param(lambda case, layout: case.pass_, list(Pass), id="pass"),
        # A33: without weight, without bias; A32: a weight of another dtype.
        pytest.param(lambda case, layout: case.weight_dtype is None, [False, True], id="weight"),
        pytest.param(lambda case, layout: case.weight_dtype not in (None, case.dtype), [False, True], id="weight of another dtype"),
        pytest.param(lambda case, layout: case.bias, [False, True], id="bias"),
    ],
)
def test_every_form_meets_every_choice(key, values):
    every_form = [(Norm.LAYER_NORM, Convention.TORCH), *((Norm.RMS_NORM, convention) for convention in Convention)]
    assert met(form, key) == {((*one, residual), value) for one, residual, value in product(every_form, (False, True), values)}


def test_every_layout_meets_every_dtype_and_every_shape_that_can_lie_so():
    assert met(lambda case, layout: layout, lambda case, layout: case.dtype) == set(product(Layout, DType))
    wanted = {
        (layout, entry.shape)
        for layout, entry in product(Layout, EDGES)
        if layout.fits(Case.make("rms_norm", "backward", entry.shape, "float32"))
    }
    assert met(lambda case, layout: layout, lambda case, layout: case.shape) == wanted


def test_what_people_use_is_there_in_every_form_and_dtype_with_many_rows():
    usual = {
        (one.case.norm, one.case.convention, one.case.residual, one.case.dtype)
        for one in EVERYTHING
        if one.case.id
        == Case.make(
            one.case.norm, "forward_backward", (4096, 8), one.case.dtype, residual=one.case.residual, convention=one.case.convention
        ).id
        and one.trials[0].layout is Layout.CONTIGUOUS
    }
    # LayerNorm and RMSNorm in three conventions, with and without a residual.
    assert len(usual) == 8 * 4


def test_the_first_ones_hold_what_people_use_and_what_they_do_not_by_turns():
    assert [one.case.shape == (4096, 8) for one in EVERYTHING[:28:2]] == [True] * 14
    assert len({form(one.case, None) for one in EVERYTHING[:16:2]}) == 8
    assert len({one.case.shape for one in EVERYTHING[1:28:2]}) >= 6


def test_nothing_is_asked_for_twice_or_that_cannot_be():
    asked = [(one.case.id, trial) for one in EVERYTHING for trial in one.trials]
    assert len(set(asked)) == len(asked)
    assert all(trial.fits(one.case) for one in EVERYTHING for trial in one.trials)


def test_a_case_has_all_values_that_fit_it_ordinary_ones_first():
    for one in EVERYTHING:
        assert {trial.values for trial in one.trials} == {values for values in Values if values.fits(one.case)}
        assert one.trials[0].values is Values.NORMAL
        assert len({trial.layout for trial in one.trials}) == 1


def test_whoever_takes_two_trials_of_each_has_seen_all_values():
    seen = [one.trials[1].values for one in EVERYTHING if len(one.trials) > 1]
    assert all(seen.count(values) >= 3 for values in set(Values) - {Values.NORMAL})


def test_choices_are_kept_to():
    found = planned(
        [GridShape((4, 8), "asked for")],
        norms=["rms_norm"],
        passes=[Pass.FORWARD],
        dtypes=[DType.BFLOAT16],
        values=[Values.HUGE],
        layouts=[Layout.SLICED],
    )
    assert {(one.case.norm, one.case.residual, one.case.pass_, one.case.dtype) for one in found} == {
        (Norm.RMS_NORM, False, Pass.FORWARD, DType.BFLOAT16)
    }
    assert {trial for one in found for trial in one.trials} == {Trial(values=Values.HUGE, layout=Layout.SLICED)}


def test_given_cases_are_tried_in_every_layout_that_fits_and_keep_what_they_are():
    case = Case.make("layer_norm", "forward", (4, 8), "float32", eps=0.5)
    found = of_cases([case], values=list(Values), layouts=list(Layout))
    assert {one.case for one in found} == {case}
    assert [one.trials[0].layout for one in found] == [layout for layout in Layout if layout.fits(case)]


def test_what_fits_nothing_leaves_nothing():
    case = Case.make("layer_norm", "forward", (8,), "float32")
    assert of_cases([case], values=[Values.NAN], layouts=[Layout.CONTIGUOUS]) == []
