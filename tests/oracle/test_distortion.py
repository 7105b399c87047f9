"""Adversarial tensors: the values that their names promise, and views with NaN around them.

Ids such as A24 are those of reports of released kernels that broke on such input.
"""

import pytest
import torch

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case
from normbench.oracle.distortion import clone_as_laid_out, lay_out, whole_storage
from normbench.oracle.problem import make_problem

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ("x", "weight", "bias", "residual", "dy", "dresidual_out")


def full_case(shape=(6, 5), dtype="float32", norm="layer_norm", **options):
    return Case.make(norm, "forward_backward", shape, dtype, residual=True, **options)


def problem(case, values=Values.NORMAL, layout=Layout.CONTIGUOUS):
    return make_problem(case, device="cpu", seed=0, trial=Trial(values=values, layout=layout))


def x_of(values, dtype="float32", shape=(6, 64)):
    return problem(full_case(shape, dtype), values).x.detach().double()


# What each layout is by its strides, of a tensor of (2, 3, 4, 10) and of weight (10,).
STRIDES = {
    Layout.SLICED: ("x", (3 * 4 * 32, 4 * 32, 32, 1)),
    Layout.MISALIGNED: ("x", (3 * 4 * 13, 4 * 13, 13, 1)),
    Layout.SECOND_ROWS: ("x", (2 * 120, 40, 10, 1)),
    Layout.TRANSPOSED: ("x", (120, 40, 1, 4)),
    Layout.HEADS: ("x", (120, 10, 30, 1)),
    Layout.STRIDED_WEIGHT: ("weight", (2,)),
    Layout.DY_EXPANDED: ("dy", (0, 0, 0, 0)),
    Layout.DY_STRIDED: ("dy", (240, 80, 20, 2)),
    Layout.DY_TRANSPOSED: ("dy", (120, 40, 1, 4)),
}


@pytest.mark.parametrize("layout", STRIDES)
def test_a_layout_changes_where_elements_lie_and_nothing_else(layout):
    case = full_case((2, 3, 4, 10))
    ordinary, laid_out = problem(case), problem(case, layout=layout)
    name, strides = STRIDES[layout]
    assert getattr(laid_out, name).stride() == strides
    for other in NAMES:
        if layout is Layout.DY_EXPANDED and other in ("dy", "dresidual_out"):
            # A single value everywhere.
            assert (getattr(laid_out, other) == getattr(ordinary, other).flatten()[0]).all()
        else:
            assert torch.equal(getattr(laid_out, other), getattr(ordinary, other))


def test_every_layout_but_the_contiguous_is_told_by_its_strides():
    assert set(STRIDES) == set(Layout) - {Layout.CONTIGUOUS}


def test_heads_have_no_common_stride_between_rows():
    x = problem(full_case((2, 3, 4, 10)), layout=Layout.HEADS).x.detach()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.view(-1, 10)


@pytest.mark.parametrize("layout", [Layout.SLICED, Layout.MISALIGNED, Layout.SECOND_ROWS])
def test_what_lies_between_is_nan_so_that_reading_it_shows(layout):
    view = problem(full_case(), layout=layout).x.detach()
    around = whole_storage(view).view(torch.float32)
    assert around.isnan().sum() == around.numel() - view.numel() > 0


def test_misaligned_rows_begin_at_no_multiple_of_16_bytes():
    x = problem(full_case((4, 16), "bfloat16"), layout=Layout.MISALIGNED).x
    assert all(row.data_ptr() % 16 for row in x.detach())
    sliced = problem(full_case((4, 16), "bfloat16"), layout=Layout.SLICED).x
    assert not any(row.data_ptr() % 16 for row in sliced.detach())


@pytest.mark.parametrize("layout", Layout)
def test_gradients_are_asked_for_the_views_themselves(layout):
    found = problem(full_case((2, 3, 4, 10)), layout=layout)
    for tensor in (found.x, found.weight, found.bias, found.residual):
        assert tensor.is_leaf
        assert tensor.requires_grad


@pytest.mark.parametrize("layout", Layout)
def test_a_copy_lies_as_the_original_does_in_memory_of_its_own(layout):
    tensor = lay_out(torch.arange(24.0).view(2, 3, 4), layout)
    copy = clone_as_laid_out(tensor)
    assert (copy.stride(), copy.storage_offset()) == (tensor.stride(), tensor.storage_offset())
    assert torch.equal(whole_storage(copy), whole_storage(tensor))
    assert copy.data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_large_mean_is_beside_a_spread_of_1_or_of_a_unit_in_the_last_place(dtype):
    # 40000 lies between 2^15 and 2^16: a unit is 32 in float16 and 256 in bfloat16 (A24).
    x = x_of(Values.LARGE_MEAN, dtype)
    unit = {"float16": 32, "bfloat16": 256}.get(dtype, 1)
    assert x.mean().item() == pytest.approx(40_000, abs=unit)
    assert 0.5 * unit < x.std(1).mean() < 1.5 * unit


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_narrow_row_spreads_over_a_few_units_in_the_last_place(dtype):
    # A24: 10000 lies above 2^13, and 10000 + i / 1000 spreads over 5 units of float32.
    x = x_of(Values.NARROW, dtype)
    unit = torch.finfo(getattr(torch, dtype)).eps * 2**13
    assert 4 * unit < x.std(1).mean() < 12 * unit
    assert len(x[0].unique()) > 10


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_tiny_rows_have_mean_squares_like_eps_and_far_below(dtype):
    # A13: in the one eps outside the root changes the result, in the other nothing but eps is left of it.
    squares = x_of(Values.TINY, dtype).square().mean(1) / 1e-5
    assert (squares[::2] > 0.3).all()
    assert (squares[1::2] < 1e-3).all()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        pytest.param("float16", 40_000, 60_000, id="float16: squares overflow, x does not (A23)"),
        pytest.param("float32", 1e17, 1e18, id="float32: squares and their sum do not, the cube of rstd underflows"),
        pytest.param("bfloat16", 1e17, 1e18, id="bfloat16: like float32"),
        pytest.param("float64", 1e99, 1e100, id="float64: the oracle must not overflow"),
    ],
)
def test_huge_values_stay_within_what_statistics_in_float32_can_hold(dtype, low, high):
    x = x_of(Values.HUGE, dtype)
    assert low < x.abs().max() <= high
    if dtype != "float64":
        assert (x.square().sum(1) < torch.finfo(torch.float32).max).all()


def test_overflow_is_past_what_statistics_in_float32_can_hold():
    assert (x_of(Values.OVERFLOW).square().sum(1) > torch.finfo(torch.float32).max).all()


def test_constant_rows_are_constant_and_differ():
    found = problem(full_case((6, 64)), Values.CONSTANT)
    x = found.x.detach()
    assert (x == x[:, :1]).all()
    assert x[0, 0] == 1234
    assert len(x[:, 0].unique()) == 6
    assert (found.residual == found.residual[0, 0]).all()


def test_rows_of_zeros_lie_beside_normal_ones():
    found = problem(full_case((6, 64)), Values.ZERO_ROWS)
    zero = ((found.x == 0) & (found.residual == 0)).all(1)
    assert zero.tolist() == [True, False, False, True, False, False]
    assert (found.x.detach()[~zero] != 0).all()


def test_what_is_not_finite_is_a_single_element_of_its_row():
    nan = problem(full_case((6, 64)), Values.NAN).x.detach()
    assert nan.isnan().sum(1).tolist() == [0, 0, 0, 1, 0, 0]
    infinite = problem(full_case((6, 64)), Values.INFINITY).x.detach()
    assert infinite.isposinf().sum(1).tolist() == [0, 0, 0, 1, 0, 0]
    assert infinite.isneginf().sum(1).tolist() == [0, 0, 0, 0, 0, 1]
    upstream = problem(full_case((6, 64)), Values.NAN_UPSTREAM)
    assert upstream.x.isfinite().all()
    assert upstream.dy.isnan().sum(1).tolist() == [0, 0, 0, 1, 0, 0]
