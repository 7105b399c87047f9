"""Adversarial inputs by name: each says why it is there, and where it cannot be."""

import pytest

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case


def case(shape=(4, 8), pass_="forward_backward", dtype="float32", **options):
    return Case.make("rms_norm", pass_, shape, dtype, **options)


@pytest.mark.parametrize("kind", [Values, Layout])
def test_every_member_says_why_it_is_there_in_words_of_its_own(kind):
    assert all(member.why for member in kind)
    assert len({member.why for member in kind}) == len(kind)


# One thing that each cannot do without.
@pytest.mark.parametrize(
    ("values", "fitting", "unfitting"),
    [
        pytest.param(Values.NARROW, case(), case(dtype="bfloat16"), id="narrow: 16 bits have nothing narrower than large_mean"),
        pytest.param(Values.TINY, case(), case(eps=0), id="tiny: beside eps"),
        pytest.param(Values.OVERFLOW, case(dtype="bfloat16"), case(dtype="float16"), id="overflow: 65504 squared is little"),
        pytest.param(Values.ZERO_ROWS, case(), case(shape=(8,)), id="zero_rows: beside others"),
        pytest.param(Values.NAN, case(), case(shape=(1, 8)), id="nan: neighbours to be right"),
        pytest.param(Values.INFINITY, case(), case(shape=(1, 8)), id="infinity: neighbours to be right"),
        pytest.param(Values.NAN_UPSTREAM, case(), case(pass_="forward"), id="nan_upstream: a backward"),
        pytest.param(Values.HUGE, case(), case(shape=(0, 8)), id="nothing is huge where nothing is"),
    ],
)
def test_values_fit_where_they_can_be(values, fitting, unfitting):
    assert Trial(values=values).fits(fitting)
    assert not Trial(values=values).fits(unfitting)


@pytest.mark.parametrize(
    ("layout", "fitting", "unfitting"),
    [
        pytest.param(Layout.SLICED, case(shape=(8,)), case(shape=(0, 8)), id="sliced: something to slice"),
        pytest.param(Layout.SECOND_ROWS, case(), case(shape=(8,)), id="second_rows: rows"),
        pytest.param(Layout.TRANSPOSED, case(), case(shape=(8,)), id="transposed: two sizes"),
        pytest.param(Layout.HEADS, case(shape=(2, 3, 4, 8)), case(), id="heads: three sizes"),
        pytest.param(Layout.STRIDED_WEIGHT, case(), case(weight=False), id="strided_weight: a weight"),
        pytest.param(Layout.DY_EXPANDED, case(), case(pass_="forward"), id="dy_expanded: a backward"),
        pytest.param(Layout.DY_TRANSPOSED, case(), case(shape=(8,)), id="dy_transposed: two sizes"),
    ],
)
def test_layouts_fit_where_they_can_be(layout, fitting, unfitting):
    assert Trial(layout=layout).fits(fitting)
    assert not Trial(layout=layout).fits(unfitting)


def test_ordinary_tensors_fit_every_case():
    assert all(Trial().fits(case(shape=shape, pass_="forward", weight=False)) for shape in ((0, 4), (1, 0), (3,)))


def test_the_label_names_what_is_out_of_the_ordinary():
    assert Trial().label == ""
    assert Trial(values=Values.HUGE).label == "huge"
    assert Trial(layout=Layout.HEADS).label == "heads"
    assert Trial(values=Values.HUGE, layout=Layout.HEADS).label == "huge, heads"


def test_only_overflow_is_past_float32():
    assert [values for values in Values if values.is_past_float32] == [Values.OVERFLOW]
