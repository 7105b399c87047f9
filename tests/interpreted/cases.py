"""Single inputs that have broken kernels of others, with answers worked out by hand, and the widths at which the kernels change."""

from unittest.mock import patch

import pytest
import torch

from normbench.cases.case import Case
from normbench.kernels import calls
from normbench.kernels.calls import run_backward, run_forward
from normbench.kernels.launch import MAX_FORWARD_COLS
from normbench.kernels.operator import norm
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import outputs_of

from .inputs import launches, same_bits

# Just past the widest float32 row kept on chip, and the widest of 16-bit values: the last step holds a single column.
LOOPED, SHORT_LOOPED = MAX_FORWARD_COLS + 1, 2 * MAX_FORWARD_COLS + 1


def layer_norm(x, weight=None, bias=None, residual=None, eps=1e-5):
    return norm(x, weight, bias, residual, eps, name="layer_norm")


def rms_norm(x, weight=None, residual=None, eps=1e-6, convention="torch"):
    return norm(x, weight, None, residual, eps, name="rms_norm", convention=convention)


def check_case(case):
    problem = make_problem(case, device="cpu", seed=0)
    (accuracies,) = check(case, problem, {"triton": outputs_of(problem, Registry().resolve("triton").prepare(case))}).values()
    assert describe_failure(accuracies) == ""


# A29 and the widths at which launches change: one column, odd ones, models' widths, the widest that shares a program (1024) and the next,
# the widest kept on chip forward (16384) and backward (8192) and the next, where a last step or block holds one column.
WIDTHS = [1, 17, 127, 255, 513, 768, 1024, 1025, 4096, 5120, 8192, 8193, 16384, LOOPED]
# In one norm only, since they take seconds: the widest 16-bit row kept on chip and the next, and as wide as anyone has asked for.
WIDEST = [32768, SHORT_LOOPED, 72704]


@pytest.mark.parametrize(
    ("name", "dtype", "cols"),
    [("layer_norm", "float32", cols) for cols in WIDTHS] + [("rms_norm", "bfloat16", cols) for cols in [*WIDTHS, *WIDEST]],
)
def test_widths(name, dtype, cols):
    # Odd, so that a tile of two rows or more is partly masked; but the widest take seconds a row.
    rows = 3 if cols <= MAX_FORWARD_COLS + 1 else 2
    check_case(Case.make(name, "forward_backward", (rows, cols), dtype, residual=True))


def test_rows_of_one_column_fill_a_tile_and_more():
    check_case(Case.make("layer_norm", "forward_backward", (2049, 1), "bfloat16"))


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_more_partial_sums_than_one_step_adds(name):
    # 70 groups: a step of their sum takes 64, and the second one is masked.
    with launches(small=True, multiprocessors=40):
        check_case(Case.make(name, "forward_backward", (70, 20), "float32"))


def test_a07_gradients_of_a_sum_come_expanded():
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    rms_norm(x, weight).sum().backward()
    x64, weight64 = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    torch.nn.functional.rms_norm(x64, (8,), weight64, 1e-6).sum().backward()
    torch.testing.assert_close(x.grad.double(), x64.grad, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(weight.grad.double(), weight64.grad, rtol=1e-5, atol=1e-6)


def test_a08_q_of_a_fused_qkv():
    qkv = torch.randn(3, (4 + 2 + 2) * 16)
    before = qkv.clone()
    q = qkv.split([64, 32, 32], -1)[0].view(3, 4, 16)
    y = rms_norm(q)
    assert y.shape == (3, 4, 16)
    assert same_bits(y, rms_norm(q.contiguous()))
    assert torch.equal(qkv, before)


def test_a09_padded_lanes_do_not_count():
    expected = torch.tensor([[-(1.5**0.5), 0, 1.5**0.5]])
    torch.testing.assert_close(layer_norm(torch.tensor([[1001.0, 1002.0, 1003.0]])), expected, atol=1e-4, rtol=0)


def test_a10_llama_rounds_before_it_multiplies():
    x, dy = torch.randn(1, 64).bfloat16(), torch.randn(1, 64).bfloat16()
    xhat, weight = rms_norm(x).float(), (1 + torch.randn(64) / 5).requires_grad_()
    y = rms_norm(x, weight, convention="llama")
    (dweight,) = torch.autograd.grad(y, weight, dy)
    assert same_bits(y.detach(), (xhat * weight.detach()).bfloat16())
    assert same_bits(dweight, (dy.float() * xhat)[0])
    # Multiplied in float32 and rounded once, some elements are others.
    plain = rms_norm(x, weight)
    assert not torch.equal(plain, y)
    assert not torch.equal(torch.autograd.grad(plain, weight, dy)[0], dweight)


def test_a11_gemma_adds_one_in_float32():
    ones = torch.ones(1, 4)
    assert rms_norm(ones, torch.full((4,), 15.8125, dtype=torch.bfloat16), eps=0.0, convention="gemma").tolist() == [[16.8125] * 4]
    assert rms_norm(ones, torch.zeros(4), eps=0.0, convention="gemma").tolist() == [[1.0] * 4]


def test_a13_eps_counts_inside_the_root_and_is_not_rounded_to_float16():
    zeros = torch.zeros(1, 10, dtype=torch.float16)
    assert rms_norm(zeros, eps=1e-12).tolist() == [[0.0] * 10]
    bias = torch.full((10,), 0.5, dtype=torch.float16)
    assert layer_norm(zeros, torch.ones_like(bias), bias, eps=1e-12).tolist() == [[0.5] * 10]
    assert rms_norm(torch.full((1, 4), 1e-3))[0, 0].item() == pytest.approx(0.5**0.5, rel=1e-6)


def test_a14_a_weight_gradient_is_summed_in_float32():
    # One by one in bfloat16 it stalls at 256, where 1 is half a unit in the last place.
    x = torch.ones(4096, 2, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    rms_norm(x, weight, eps=0.0).backward(torch.ones_like(x))
    assert weight.grad.tolist() == [4096.0, 4096.0]


def test_a15_the_sum_is_rounded_once_and_the_norm_reads_what_is_returned():
    x, residual = torch.randn(7, 129).bfloat16(), torch.randn(7, 129).bfloat16()
    y, total = rms_norm(x, residual=residual)
    assert same_bits(total, x + residual)
    assert same_bits(y, rms_norm(total))


def test_a23_squares_of_float16_do_not_overflow():
    assert rms_norm(torch.full((2, 64), 1000.0).half()).tolist() == [[1.0] * 64] * 2
    assert layer_norm(torch.tensor([[60000.0, -60000.0] * 4]).half()).tolist() == [[1.0, -1.0] * 4]


def test_a24_a_large_mean_does_not_cancel():
    expected = torch.tensor([[-1.3416, -0.4472, 0.4472, 1.3416]])
    torch.testing.assert_close(layer_norm(torch.tensor([[40000.0, 40001.0, 40002.0, 40003.0]])), expected, atol=1e-3, rtol=0)
    # Looped over, with a mean of 40001.5 in every step: four values of equal share have the same norm.
    looped = layer_norm((40000.0 + torch.arange(LOOPED - 1) % 4)[None].repeat(1, 2))
    torch.testing.assert_close(looped[:, :4], expected, atol=1e-2, rtol=0)


def test_a24_a_row_of_one_value_is_the_bias():
    x = torch.full((2, 256), 1234.0, requires_grad=True)
    weight, bias = torch.randn(256), torch.randn(256)
    y = layer_norm(x, weight, bias)
    assert torch.equal(y, bias.expand(2, 256))
    y.backward(torch.randn(2, 256))
    assert x.grad.isfinite().all()


def test_a24_a_row_of_one_value_in_steps_is_zero_but_for_roundings_of_the_mean():
    # eps = 1e-5 multiplies what is left by 316; one rounding of 1234 is 6e-5.
    assert layer_norm(torch.full((1, LOOPED), 1234.0)).abs().max() <= 316 * 2 * 1234 * 2**-24


@pytest.mark.parametrize("shape", [(0, 1024), (1, 0, 10), (1, 0)], ids=str)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_a25_nothing_is_launched_for_nothing(name, shape):
    def launched(*_, **__):
        raise AssertionError("launched")

    x, residual = torch.empty(shape, requires_grad=True), torch.empty(shape)
    weight = torch.ones(shape[-1], dtype=torch.float64, requires_grad=True)
    bias = torch.ones(shape[-1], requires_grad=True)
    kernels = ["norm_forward", "norm_forward_looped", "norm_backward", "norm_backward_projections", "sum_partials"]
    with patch.multiple(calls, **{kernel: {None: launched} for kernel in kernels}):
        y, total = norm(x, weight, bias, residual, 1e-5, name=name)
        torch.autograd.backward([y, total], [torch.ones(shape), torch.ones(shape)])
    assert y.shape == total.shape == x.grad.shape == shape
    for vector in (weight, bias):
        assert vector.grad.dtype == vector.dtype
        assert vector.grad.tolist() == [0.0] * shape[-1]


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_a28_rows_further_apart_than_31_bits(name):
    # Two rows of 4 GB of memory, of which a page each is touched.
    distance = 2**31 + 16
    memory = torch.empty(distance + 16, dtype=torch.float16)
    x = memory.as_strided((2, 16), (distance, 1))
    x.copy_(torch.randn(2, 16) + 1)
    weight = torch.ones(16, dtype=torch.float16, requires_grad=True)
    y = norm(x, weight, None, None, 1e-5, name=name)
    assert same_bits(y.detach(), norm(x.contiguous(), weight, None, None, 1e-5, name=name).detach())
    (dweight,) = torch.autograd.grad(y, weight, memory.as_strided((2, 16), (distance, 1)))
    assert dweight.double().tolist() == pytest.approx((x.double() * y.double()).sum(0).tolist(), rel=1e-2)


def test_a34_rows_of_zeros_give_a_weight_gradient_of_zeros():
    weight = torch.ones(4, requires_grad=True)
    (-rms_norm(torch.zeros(4), weight).sum()).backward()
    assert weight.grad.tolist() == [0.0] * 4


@pytest.mark.parametrize("cols", [300, 40], ids=["whole rows", "columns in blocks"])
def test_a34_sums_have_the_same_bits_every_time(cols):
    case = Case.make("layer_norm", "forward_backward", (9, cols), "bfloat16")
    problem = make_problem(case, device="cpu", seed=0)
    function = Registry().resolve("triton").prepare(case)
    with launches(small=cols == 40, multiprocessors=4):
        first, *others = (outputs_of(problem, function) for _ in range(3))
    for other in others:
        assert all(same_bits(other[name], tensor) for name, tensor in first.items())


def test_a37_a_row_of_zeros_has_a_finite_gradient():
    x = torch.tensor([[0.0, 0, 0, 0], [1, 2, 3, 4]], requires_grad=True)
    weight = torch.tensor([1.0, 2, 3, 4], requires_grad=True)
    y = rms_norm(x, weight)
    y.backward(torch.ones(2, 4))
    assert y[0].tolist() == [0.0] * 4
    # 1 / sqrt(eps) is 1000.
    assert x.grad[0].tolist() == pytest.approx([1000, 2000, 3000, 4000], rel=1e-6)
    assert weight.grad.tolist() == pytest.approx((x[1] / 7.5**0.5).tolist(), rel=1e-6)


@pytest.mark.parametrize("cols", [100, SHORT_LOOPED], ids=["on chip", "looped over"])
@pytest.mark.parametrize(("dtype", "kept"), [("float32", "float32"), ("bfloat16", "float32"), ("float64", "float64")])
def test_statistics_are_kept_in_what_is_computed_in(cols, dtype, kept):
    x, kept = (torch.randn(3, cols) + 3).to(getattr(torch, dtype)), getattr(torch, kept)
    centred = run_forward(x, None, None, None, 1e-5, norm="layer_norm", convention="torch", saves_statistics=True)
    plain = run_forward(x, None, None, None, 1e-6, norm="rms_norm", convention="torch", saves_statistics=True)
    assert plain.mean is None
    wide = x.double()
    for found, exact in [
        (centred.mean, wide.mean(-1)),
        # Not `var`, whose float64 result is off by 10 roundings at this width.
        (centred.rstd, ((wide - wide.mean(-1, keepdim=True)).square().mean(-1) + 1e-5).rsqrt()),
        (plain.rstd, (wide.square().mean(-1) + 1e-6).rsqrt()),
    ]:
        assert found.dtype == kept
        torch.testing.assert_close(found.double(), exact, rtol=4 * torch.finfo(kept).eps, atol=0)


def test_sums_that_nobody_wants_are_not_made():
    x, weight = torch.randn(5, 8), torch.randn(8)
    saved = run_forward(x, weight, None, None, 1e-6, norm="rms_norm", convention="torch", saves_statistics=True)
    with patch.object(calls, "sum_partials", None):
        gradients = run_backward(
            x, None, x, weight, None, saved.rstd, norm="rms_norm", convention="torch", dweight_dtype=None, dbias_dtype=None
        )
    assert gradients.dweight is None
    assert gradients.dbias is None


def test_the_interpreter_rounds_to_nearest_even_as_a_gpu_does():
    # Ties go to even, a large mantissa carries into the exponent, and a NaN stays one.
    weight = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-16, 2 - 2**-10, float("nan")])
    y = rms_norm(torch.ones(1, 5, dtype=torch.bfloat16), weight, eps=0.0)[0].tolist()
    assert y[:4] == [1.0, 1 + 2**-6, 1 + 2**-7, 2.0]
    assert y[4] != y[4]


def test_the_interpreter_rounds_float64_to_bfloat16_too():
    x, dy = torch.randn(8, 64, dtype=torch.float64), torch.randn(8, 64, dtype=torch.float64)
    weight = torch.ones(64, dtype=torch.bfloat16, requires_grad=True)
    (dweight,) = torch.autograd.grad(rms_norm(x, weight), weight, dy)
    exact = (dy * x * torch.rsqrt((x * x).mean(-1, keepdim=True))).sum(0)
    torch.testing.assert_close(dweight.double(), exact, rtol=2**-8, atol=1e-4)
