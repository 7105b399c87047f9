"""The tensors of a case: what they are, what they never hold, and that a seed says it all."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case, DType
from normbench.oracle.problem import TILE, dtype_name, dtype_of, make_problem, moved, torch_dtype

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ("x", "weight", "bias", "residual", "dy", "dresidual_out")
DTYPES = ("float64", "float32", "bfloat16", "float16")


def tensors(problem):
    return {name: getattr(problem, name) for name in NAMES if getattr(problem, name) is not None}


def full_case(shape=(6, 5), dtype="float32", norm="layer_norm", **options):
    return Case.make(norm, "forward_backward", shape, dtype, residual=True, **options)


def test_dtypes_have_the_names_that_pytorch_gives_them():
    assert all(dtype_of(torch_dtype(one)) is one for one in DType)
    assert (dtype_of(torch.int32), dtype_name(torch.int32)) == (None, "int32")


def test_tensors_have_the_shapes_and_dtypes_of_the_case():
    problem = make_problem(full_case((2, 3, 5), "bfloat16", weight_dtype="float32"), device="cpu", seed=0)
    assert {name: (tuple(t.shape), str(t.dtype)) for name, t in tensors(problem).items()} == {
        "x": ((2, 3, 5), "torch.bfloat16"),
        "weight": ((5,), "torch.float32"),
        "bias": ((5,), "torch.float32"),
        "residual": ((2, 3, 5), "torch.bfloat16"),
        "dy": ((2, 3, 5), "torch.bfloat16"),
        "dresidual_out": ((2, 3, 5), "torch.bfloat16"),
    }


@pytest.mark.parametrize(
    ("case", "present"),
    [
        pytest.param(Case.make("layer_norm", "forward", (4, 8), "float32"), {"x", "weight", "bias"}, id="layer_norm"),
        pytest.param(Case.make("rms_norm", "forward", (4, 8), "float32"), {"x", "weight"}, id="rms_norm has no bias"),
        pytest.param(Case.make("rms_norm", "forward", (4, 8), "float32", weight=False), {"x"}, id="no weight"),
        pytest.param(Case.make("rms_norm", "forward", (4, 8), "float32", residual=True), {"x", "weight", "residual"}, id="residual"),
        pytest.param(Case.make("rms_norm", "backward", (4, 8), "float32"), {"x", "weight", "dy"}, id="backward needs dy"),
    ],
)
def test_what_the_case_does_not_have_is_none(case, present):
    assert set(tensors(make_problem(case, device="cpu", seed=0))) == present


def test_differentiable_inputs_ask_for_gradients_only_if_there_is_a_backward():
    with_backward = make_problem(full_case(), device="cpu", seed=0)
    assert {name for name, t in tensors(with_backward).items() if t.requires_grad} == {"x", "weight", "bias", "residual"}
    forward = make_problem(Case.make("layer_norm", "forward", (6, 5), "float32", residual=True), device="cpu", seed=0)
    assert not any(t.requires_grad for t in tensors(forward).values())


def test_the_same_seed_gives_the_same_bits_in_new_memory():
    first, second = (tensors(make_problem(full_case(), device="cpu", seed=7)) for _ in range(2))
    for name in NAMES:
        assert torch.equal(first[name], second[name])
        assert first[name].data_ptr() != second[name].data_ptr()


def test_every_tensor_and_every_seed_has_values_of_its_own():
    # Seeds 3 and 4 follow each other: sub-seeds of neighbours must not overlap.
    drawn = [t for seed in (3, 4) for t in tensors(make_problem(full_case((5,)), device="cpu", seed=seed)).values()]
    assert len({tuple(t.tolist()) for t in drawn}) == len(drawn)


@given(
    shape=st.lists(st.integers(0, 20), min_size=1, max_size=3).map(tuple),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**63 - 1),
)
@settings(deadline=None)
def test_no_value_is_zero_or_subnormal_whatever_the_dtype(shape, dtype, seed):
    for tensor in tensors(make_problem(full_case(shape, dtype), device="cpu", seed=seed)).values():
        assert tensor.isfinite().all()
        assert (tensor.abs() >= torch.finfo(tensor.dtype).tiny).all()


def test_rows_of_a_tensor_longer_than_the_tile_differ():
    # 9 rows of 2**19 elements are 1.1 tiles: the last row holds the end of one and the beginning of the next.
    x = make_problem(Case.make("rms_norm", "forward", (9, 2**19), "float16"), device="cpu", seed=0).x
    assert x.numel() > TILE
    assert len({tuple(row[:8].tolist()) for row in x}) == 9
    assert torch.equal(x.view(-1)[TILE:], x.view(-1)[: x.numel() - TILE])


def test_the_tile_has_a_prime_number_of_elements():
    assert all(TILE % divisor for divisor in range(2, int(TILE**0.5) + 1))


def test_data_hides_neither_a_wrong_mean_nor_a_dropped_projection():
    # At 16384 columns the means of centred, unrelated data would be within 0.03 of zero.
    problem = make_problem(Case.make("layer_norm", "backward", (4, 16384), "float32"), device="cpu", seed=0)
    x, dy = problem.x.detach(), problem.dy
    xhat = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    assert (x.mean(-1) > 0.4).all()
    assert (dy.mean(-1).abs() > 0.2).all()
    assert ((dy * xhat).mean(-1).abs() > 0.4).all()


def test_sums_over_rows_stay_near_the_square_root_of_rows():
    # A sum that grew with the rows would be 0.5 * 4096 here, and overflow float16 at 131072 rows.
    problem = make_problem(Case.make("layer_norm", "backward", (4096, 64), "float32"), device="cpu", seed=0)
    assert (problem.dy * problem.x.detach()).sum(0).abs().max() < 6 * 4096**0.5


def test_weights_lie_around_the_factor_1_in_every_convention():
    torch_like = make_problem(Case.make("rms_norm", "forward", (1, 4096), "float32"), device="cpu", seed=0).weight
    gemma = make_problem(Case.make("rms_norm", "forward", (1, 4096), "float32", convention="gemma"), device="cpu", seed=0).weight
    assert torch_like.mean().item() == pytest.approx(1.0, abs=0.02)
    assert (1 + gemma).mean().item() == pytest.approx(1.0, abs=0.02)


def test_a_trial_changes_only_what_it_names():
    case = full_case((6, 64))
    ordinary = tensors(make_problem(case, device="cpu", seed=0))
    huge = tensors(make_problem(case, device="cpu", seed=0, trial=Trial(values=Values.HUGE)))
    assert {name for name in NAMES if not torch.equal(ordinary[name], huge[name])} == {"x"}
    sliced = tensors(make_problem(case, device="cpu", seed=0, trial=Trial(layout=Layout.SLICED)))
    assert {name for name in NAMES if ordinary[name].stride() != sliced[name].stride()} == {"x", "residual"}


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("values", Values)
def test_every_trial_that_fits_can_be_made_again_to_the_bit(values, layout):
    case, trial = full_case((2, 3, 4, 10)), Trial(values=values, layout=layout)
    first, second = (tensors(make_problem(case, device="cpu", seed=3, trial=trial)) for _ in range(2))
    for name in NAMES:
        assert first[name].shape == ((10,) if name in ("weight", "bias") else (2, 3, 4, 10))
        assert torch.equal(first[name].nan_to_num(nan=7.0), second[name].nan_to_num(nan=7.0))


def test_a_moved_problem_has_the_same_values_elsewhere_and_asks_for_the_same_gradients():
    case = Case.make("layer_norm", "forward_backward", (3, 8), "bfloat16", residual=True)
    problem = make_problem(case, device="cpu", seed=0)
    other = moved(problem)
    for name in ("x", "weight", "bias", "residual", "dy", "dresidual_out"):
        there, here = getattr(problem, name), getattr(other, name)
        assert torch.equal(there, here)
        assert there.data_ptr() != here.data_ptr()
        assert (here.requires_grad, here.is_leaf) == (there.requires_grad, True)


def test_what_a_case_lacks_is_not_moved_either():
    other = moved(make_problem(Case.make("rms_norm", "forward", (3, 8), "float32", weight=False), device="cpu", seed=0))
    assert (other.weight, other.bias, other.residual, other.dy) == (None, None, None, None)
