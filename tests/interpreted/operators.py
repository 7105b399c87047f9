"""The kernels as PyTorch operators: differentiated, traced, compiled and wrapped as PyTorch's own are."""

import importlib
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad

import normbench
from normbench.errors import NormbenchError
from normbench.kernels.operator import backward_operator, forward_operator, norm

from .inputs import launches, same_bits

# What PyTorch imports when it first compiles or differentiates forwards warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script.* is deprecated:DeprecationWarning")


@pytest.fixture(autouse=True)
def no_graphs_of_other_tests():
    # All of one function count together against the limit of its graphs.
    torch._dynamo.reset()


NORMS = ["layer_norm", "rms_norm"]
KINDS = [("layer_norm", "torch"), ("rms_norm", "torch"), ("rms_norm", "llama"), ("rms_norm", "gemma")]
UPDATES = ["with a residual", "alone"]


def tensors(shape=(5, 24), *, dtype=torch.float32, residual=True, requires_grad=True):
    """Return x, weight, bias and residual of normal values; the residual may be None."""
    torch.manual_seed(0)
    made = [torch.randn(shape), 1 + torch.randn(shape[-1:]) / 5, torch.randn(shape[-1:]), torch.randn(shape) if residual else None]
    return [None if tensor is None else tensor.to(dtype).requires_grad_(requires_grad) for tensor in made]


def gradients_of(function, inputs):
    """Return gradients of a sum that weighs the elements of all outputs differently."""
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    weighed = sum((torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output) * output).sum() for output in outputs)
    return torch.autograd.grad(weighed, [tensor for tensor in inputs if tensor is not None])


def require_same(found, wanted):
    assert len(found) == len(wanted)
    assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("residual", [True, False], ids=UPDATES)
@pytest.mark.parametrize(("name", "convention"), KINDS)
def test_gradients_in_float64_are_those_of_differences(name, convention, residual):
    inputs = tensors((3, 5), dtype=torch.float64, residual=residual)
    assert torch.autograd.gradcheck(partial(norm, eps=1e-5, name=name, convention=convention), inputs, fast_mode=True)


@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_wide_rows_are_those_of_differences(name):
    with launches(small=True, multiprocessors=1):
        assert torch.autograd.gradcheck(partial(norm, eps=1e-5, name=name), tensors((2, 37), dtype=torch.float64), fast_mode=True)


@pytest.mark.parametrize("residual", [True, False], ids=UPDATES)
@pytest.mark.parametrize("name", NORMS)
def test_the_forward_operator_keeps_what_pytorch_asks_of_one(name, residual):
    torch.library.opcheck(forward_operator, (*tensors(residual=residual), 1e-5, name, "torch"))


# Of the dtypes asked for: both, and none as for frozen weights.
@pytest.mark.parametrize("dtype", [torch.float32, None])
@pytest.mark.parametrize("name", NORMS)
def test_the_backward_operator_keeps_what_pytorch_asks_of_one(name, dtype):
    x, weight, bias, residual = tensors(requires_grad=False)
    _, hidden, mean, rstd = forward_operator(x, weight, bias, residual, 1e-5, name, "torch")
    torch.library.opcheck(backward_operator, (x, residual, hidden, weight, mean, rstd, name, "torch", dtype, dtype))
    torch.library.opcheck(backward_operator, (None, residual, hidden, weight, mean, rstd, name, "torch", dtype, dtype))


@pytest.mark.parametrize("residual", [True, False], ids=UPDATES)
@pytest.mark.parametrize(("name", "convention"), KINDS)
def test_a_graph_with_the_operator_has_the_bits_of_the_function(name, convention, residual):
    function = partial(norm, eps=1e-5, name=name, convention=convention)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    inputs = tensors(dtype=torch.bfloat16, residual=residual)
    require_same(gradients_of(compiled, inputs), gradients_of(function, inputs))


def test_one_graph_serves_every_batch():
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(partial(norm, eps=1e-5, name="layer_norm"), fullgraph=True, backend=counter, dynamic=True)
    counts = []
    for rows in (2, 5, 11):
        inputs = tensors((rows, 24))
        require_same(gradients_of(compiled, inputs), gradients_of(partial(norm, eps=1e-5, name="layer_norm"), inputs))
        counts.append(counter.frame_count)
    assert counts[0] == counts[1] == counts[2]


def test_inductor_leaves_the_operator_as_it_is():
    def block(x, weight, bias, residual):
        y, total = norm(x * 2, weight, bias, residual, 1e-5, name="layer_norm")
        return y.relu(), total

    inputs = tensors(residual=True)
    found, wanted = gradients_of(torch.compile(block, fullgraph=True), inputs), gradients_of(block, inputs)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("weight_dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", NORMS)
def test_autocast_changes_nothing(name, weight_dtype):
    x, weight, bias, residual = tensors(dtype=torch.bfloat16)
    inputs = [x, weight.detach().to(weight_dtype).requires_grad_(), bias.detach().to(weight_dtype).requires_grad_(), residual]
    function = partial(norm, eps=1e-5, name=name)
    wanted = gradients_of(function, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        y, total = function(*inputs)
        require_same(gradients_of(function, inputs), wanted)
    assert (y.dtype, total.dtype, wanted[1].dtype) == (torch.bfloat16, torch.bfloat16, weight_dtype)


SECOND = "the Triton kernels have no second derivative: use another provider, such as eager, where one is needed"


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "operator"])
@pytest.mark.parametrize("name", NORMS)
def test_only_a_second_derivative_that_is_taken_is_refused(name, is_compiled):
    inputs = tensors()
    function = (lambda *given: forward_operator(*given, 1e-5, name, "torch")[:2]) if is_compiled else partial(norm, eps=1e-5, name=name)
    wanted = gradients_of(function, inputs)
    y, total = function(*inputs)
    scale = torch.linspace(-1, 2, y.numel()).view_as(y)
    found = torch.autograd.grad((scale * y).sum() + (scale * total).sum(), inputs, create_graph=True)
    require_same([gradient.detach() for gradient in found], wanted)
    with pytest.raises(NormbenchError, match=SECOND):
        found[0].square().sum().backward()


@pytest.mark.parametrize("name", NORMS)
def test_an_output_that_nobody_uses_contributes_nothing(name):
    # The row of NaN: of y's derivative there, which is NaN, none is asked for.
    x, weight, bias, residual = tensors()
    x.data[1, 3] = torch.nan
    y, total = norm(x, weight, bias, residual, 1e-5, name=name)
    upstream = torch.randn_like(y)
    only_sum = torch.autograd.grad(total, [x, weight, bias, residual], upstream, retain_graph=True)
    require_same(only_sum, [upstream, torch.zeros_like(weight), torch.zeros_like(bias), upstream])
    only_y = torch.autograd.grad(y, [x, residual], upstream)
    without = norm(total.detach().requires_grad_(), weight, bias, None, 1e-5, name=name)
    assert only_y[0][0].isfinite().all()
    assert same_bits(only_y[0], only_y[1])
    assert same_bits(y.detach(), without.detach())


class _Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None


def test_no_gradient_at_all_is_a_gradient_of_zero():
    x, weight, bias, _ = tensors()
    y = norm(x, weight, bias, None, 1e-5, name="layer_norm")
    gradients = torch.autograd.grad(_Nothing.apply(y).sum(), [x, weight, bias], allow_unused=True)
    assert all(gradient is None or not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_x_plus_x_add_up(name):
    x, weight, _, _ = tensors()
    y, total = norm(x, weight, None, x, 1e-5, name=name)
    torch.autograd.backward([y, total], [torch.ones_like(y), torch.full_like(y, 2)])
    doubled = (x.detach() * 2).requires_grad_()
    reference = norm(doubled, weight.detach(), None, None, 1e-5, name=name)
    (through_y,) = torch.autograd.grad(reference, doubled, torch.ones_like(y))
    torch.testing.assert_close(x.grad, 2 * (through_y + 2))


def test_gradients_accumulate_in_leaves_of_their_own():
    x, weight, bias, residual = tensors()
    for _ in range(2):
        y, total = norm(x, weight, bias, residual, 1e-5, name="rms_norm")
        (y.sum() + total.sum()).backward()
    assert x.grad.data_ptr() != residual.grad.data_ptr()
    assert same_bits(x.grad, residual.grad)
    y, total = norm(x, weight, bias, residual, 1e-5, name="rms_norm")
    torch.testing.assert_close(x.grad, 2 * torch.autograd.grad(y.sum() + total.sum(), x)[0])


def test_a_sum_that_is_written_to_before_the_backward_is_noticed():
    x, weight, bias, residual = tensors()
    y, total = norm(x, weight, bias, residual, 1e-5, name="rms_norm")
    with torch.no_grad():
        total.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_output_has_the_same_bits(mode):
    inputs = tensors()
    wanted = norm(*inputs, 1e-5, name="layer_norm")
    with mode():
        found = norm(*inputs, 1e-5, name="layer_norm")
    assert not any(output.requires_grad for output in found)
    require_same(found, [output.detach() for output in wanted])


# Neither works, and neither gives a number that is wrong.
@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(lambda function, x: torch.func.vmap(function)(x), id="vmap"),
        pytest.param(lambda function, x: torch.func.grad(lambda t: function(t).sum())(x), id="grad"),
        pytest.param(lambda function, x: torch.func.jacrev(function)(x), id="jacrev"),
        pytest.param(lambda function, x: torch.func.jvp(function, (x,), (x,)), id="jvp"),
    ],
)
def test_transforms_of_functions_are_refused(transform):
    with pytest.raises((RuntimeError, NotImplementedError), match=r"setup_context staticmethod|Cannot access (storage|data)"):
        transform(lambda x: norm(x, None, None, None, 1e-6, name="rms_norm"), torch.randn(3, 8))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_forward_mode_is_refused(requires_grad):
    x = torch.randn(3, 8, requires_grad=requires_grad)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(NotImplementedError, match="must implement the jvp function"):
            norm(dual, None, None, None, 1e-6, name="rms_norm")
        assert norm(x.detach(), None, None, None, 1e-6, name="rms_norm").shape == x.shape


@pytest.fixture
def copy_of_package(tmp_path, monkeypatch):
    """Return the operators of a second copy of the package, under another name in the same process."""
    shutil.copytree(Path(normbench.__file__).parent, tmp_path / "another_normbench", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("another_normbench.kernels.operator")
    for name in [name for name in sys.modules if name.partition(".")[0] == "another_normbench"]:
        del sys.modules[name]


def test_two_copies_of_the_package_share_a_process(copy_of_package):
    x, weight, bias, residual = tensors(requires_grad=False)
    arguments = (x, weight, bias, residual, 1e-5, "layer_norm", "torch")
    assert copy_of_package.forward_operator is not forward_operator
    require_same(copy_of_package.forward_operator(*arguments), forward_operator(*arguments))
    assert {namespace for namespace in ("normbench", "another_normbench") if hasattr(torch.ops, f"{namespace}_kernels_operator")} == {
        "normbench",
        "another_normbench",
    }
