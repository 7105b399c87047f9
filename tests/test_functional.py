"""`apply`: PyTorch's arguments, any provider, and a clear word for what does not fit before anything is computed."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import run_interpreted
from torch._dynamo.testing import CompileCounterWithBackend

import normbench.functional
from normbench import UsageError, apply

# What PyTorch says when it first compiles, and when it compiles for a tensor that is no leaf.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

# Those that compute on a CPU. `compile` takes seconds for each kind of input.
PROVIDERS = ["eager", "aten"]


def randn(*shape, dtype=torch.float32, requires_grad=False):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).requires_grad_(requires_grad)


def test_triton_in_the_interpreter(tmp_path):
    assert run_interpreted("functional.py", tmp_path)


def test_it_is_a_function_whatever_is_imported():
    assert callable(normbench.apply)
    assert normbench.apply is normbench.functional.apply


# What a norm runs over.


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("shape", "given_shape"),
    [((8,), 8), ((8,), (8,)), ((8,), [8]), ((4, 8), (4, 8)), ((3, 4, 8), torch.Size((3, 4, 8))), ((8,), None), ((4, 8), None)],
    ids=str,
)
def test_layer_norm_runs_over_the_normalized_shape_which_is_by_default_the_weights(shape, given_shape, provider):
    x, weight, bias = randn(2, 3, 4, 8), randn(*shape), randn(*shape)
    y = apply("layer_norm", x, weight, bias, normalized_shape=given_shape, provider=provider)
    torch.testing.assert_close(y, F.layer_norm(x, shape, weight, bias))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("given_shape", "shape"), [(None, (8,)), (8, (8,)), ((4, 8), (4, 8)), ((2, 3, 4, 8), (2, 3, 4, 8))], ids=str)
def test_without_a_weight_it_runs_over_the_last_dimension_or_those_given(given_shape, shape, provider):
    x = randn(2, 3, 4, 8)
    y = apply("rms_norm", x, normalized_shape=given_shape, eps=1e-6, provider=provider)
    torch.testing.assert_close(y, F.rms_norm(x, shape, None, 1e-6))


@pytest.mark.parametrize("provider", [*PROVIDERS, "compile"])
def test_gradients_have_the_shape_of_what_was_given(provider):
    tensors = [randn(3, 4, 8, requires_grad=True), randn(4, 8, requires_grad=True), randn(4, 8, requires_grad=True)]
    found = torch.autograd.grad(apply("layer_norm", *tensors, provider=provider).square().sum(), tensors)
    wanted = torch.autograd.grad(F.layer_norm(tensors[0], (4, 8), *tensors[1:]).square().sum(), tensors)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("shape", [(8,), (4, 8)], ids=str)
def test_with_a_residual_the_sum_is_returned_too(shape, provider):
    x, residual, weight = randn(3, 4, 8), randn(3, 4, 8) + 1, randn(*shape)
    y, total = apply("rms_norm", x, weight, residual=residual, eps=1e-6, provider=provider)
    assert torch.equal(total, x + residual)
    torch.testing.assert_close(y, F.rms_norm(x + residual, shape, weight, 1e-6))


# eps.


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a12_eps_of_rms_norm_is_by_default_the_machine_epsilon_of_the_computation(dtype, provider):
    # So small that an eps of 2**-7, that of bfloat16, would shrink y 1.8 times.
    x = (randn(2, 4, 1, 32) * 0.058).to(dtype)
    eps = 2.0**-52 if dtype == torch.float64 else 2.0**-23
    wide = x.double()
    exact = wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    found = apply("rms_norm", x, provider=provider)
    torch.testing.assert_close(found.double(), exact, rtol=2 * torch.finfo(dtype).eps, atol=0)
    torch.testing.assert_close(found, F.rms_norm(x, (32,)))


def test_eps_of_layer_norm_is_by_default_that_of_pytorch():
    x = randn(4, 8) * 1e-3
    assert torch.equal(apply("layer_norm", x), F.layer_norm(x, (8,)))
    assert not torch.equal(apply("layer_norm", x), apply("layer_norm", x, eps=1e-6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a11_gemma_multiplies_by_one_plus_the_weight(dtype):
    x, weight = randn(4, 8).to(dtype), randn(8).to(dtype)
    y = apply("rms_norm", x, weight, eps=1e-6, convention="gemma")
    expected = (F.rms_norm(x.float(), (8,), None, 1e-6) * (1 + weight.float())).to(dtype)
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a32_under_autocast_y_has_the_dtype_of_x(norm, provider):
    with torch.autocast("cpu", torch.bfloat16):
        assert apply(norm, randn(4, 8).bfloat16(), randn(8).bfloat16(), provider=provider).dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8), (2, 0)], ids=str)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a25_nothing_gives_nothing(shape, provider):
    weight = torch.ones(shape[-1], requires_grad=True)
    y = apply("layer_norm", torch.empty(shape), weight, provider=provider)
    assert y.shape == shape
    y.sum().backward()
    assert weight.grad.tolist() == [0.0] * shape[-1]


# What does not fit.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"x": torch.tensor(1.0)}, "normalized_shape is empty: a norm runs over at least one dimension", id="a number"),
        pytest.param({"normalized_shape": ()}, "normalized_shape is empty", id="no dimension"),
        pytest.param({"normalized_shape": 7}, r"x of shape \(4, 8\) does not end in normalized_shape \(7,\)", id="other size"),
        pytest.param({"normalized_shape": (2, 4, 8)}, r"does not end in normalized_shape \(2, 4, 8\)", id="too many dimensions"),
        pytest.param({"weight": torch.ones(7)}, r"x of shape \(4, 8\) does not end in normalized_shape \(7,\)", id="short weight"),
        pytest.param(
            {"weight": torch.ones(7), "normalized_shape": 8}, r"weight has shape \(7,\); it must be \(8,\)", id="short weight, shape"
        ),
        pytest.param(
            {"weight": torch.ones(8), "normalized_shape": (4, 8)}, r"weight has shape \(8,\); it must be \(4, 8\)", id="flat weight"
        ),
        pytest.param({"weight": torch.ones(8), "bias": torch.ones(1)}, r"bias has shape \(1,\); it must be \(8,\)", id="bias to broadcast"),
        pytest.param({"residual": torch.ones(1, 8)}, r"residual has shape \(1, 8\); it must be \(4, 8\)", id="residual to broadcast"),
        pytest.param({"residual": torch.ones(8)}, r"residual has shape \(8,\); it must be \(4, 8\)", id="residual of one row"),
        pytest.param({"weight": torch.ones(8, device="meta")}, "weight is on meta and x on cpu: move one to the other", id="device"),
        pytest.param(
            {"residual": torch.ones(4, 8).half()}, r"residual is torch.float16 and x torch.float32: a residual is", id="residual dtype"
        ),
        pytest.param(
            {"weight": torch.ones(8), "bias": torch.ones(8).half()},
            "bias is torch.float16 and weight torch.float32: both must have one dtype",
            id="bias dtype",
        ),
        pytest.param(
            {"x": torch.ones(4, 8, dtype=torch.int64)},
            "x is torch.int64; a norm takes float64, float32, bfloat16, float16",
            id="whole numbers",
        ),
        pytest.param({"weight": torch.ones(8, dtype=torch.complex64)}, "weight is torch.complex64; a norm takes", id="complex weight"),
        pytest.param({"bias": torch.ones(8)}, "a bias without a weight is not supported: give both, or no bias", id="bias alone"),
        pytest.param({"eps": -1e-6}, "eps -1e-06 is not a finite number of at least 0", id="negative eps"),
        pytest.param({"eps": float("nan")}, "eps nan is not a finite number of at least 0", id="eps of NaN"),
        pytest.param({"norm": "batch_norm"}, "norm 'batch_norm' is unknown; known are layer_norm, rms_norm", id="norm"),
        pytest.param({"convention": "t5"}, "convention 't5' is unknown; known are torch, llama, gemma", id="convention"),
        pytest.param({"convention": "llama"}, "convention 'llama' is defined for rms_norm only", id="convention of the other norm"),
        pytest.param({"provider": "cudnn"}, "provider 'cudnn' is unknown; known are ", id="provider"),
        pytest.param(
            {"norm": "rms_norm", "weight": torch.ones(8), "bias": torch.ones(8), "provider": "aten"},
            "provider 'aten' does not take op/rms_norm/forward/4x8/float32/bias.* on cpu: F.rms_norm has no bias",
            id="what the provider does not take",
        ),
        pytest.param(
            {"provider": "triton"},
            "provider 'triton' needs a GPU, and x is on cpu: name another provider, such as aten, or set TRITON_INTERPRET=1 before",
            id="triton without a GPU",
        ),
    ],
)
def test_what_does_not_fit_is_said(arguments, message):
    with pytest.raises(UsageError, match=message):
        apply(**{"norm": "layer_norm", "x": torch.ones(4, 8)} | arguments)


# Providers of a file, which stand for any whose kernels trust what they are given.

TRUSTING = """
import normbench

def fits(x, weight, bias, residual):
    return all(t is None or t.shape == x.shape[-1:] for t in (weight, bias)) and (residual is None or residual.shape == x.shape)

@normbench.provider("trusting", norms=["layer_norm", "rms_norm"])
def trusting(x, weight, bias, residual, eps):
    assert fits(x, weight, bias, residual), "a kernel would have read what is not its own"
    return x if residual is None else (x, x + residual)
"""

MUTATING = """
import normbench, torch

@normbench.provider("mutating", norms=["rms_norm"], mutates=["x", "residual"])
def mutating(x, weight, bias, residual, eps):
    residual.add_(x)
    x.copy_(torch.nn.functional.rms_norm(residual, x.shape[-1:], weight, eps))
    return x, residual
"""


@pytest.fixture(scope="module")
def file_of(tmp_path_factory):
    """Write a provider's file and return its path as text."""

    def write(source):
        path = tmp_path_factory.mktemp("providers") / "mine.py"
        path.write_text(source)
        return str(path)

    return write


@pytest.fixture(scope="module")
def trusting(file_of):
    return file_of(TRUSTING)


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(x=SHAPES, weight=st.none() | SHAPES, bias=st.none() | SHAPES, residual=st.none() | SHAPES, given_shape=st.none() | SHAPES)
@settings(deadline=None, max_examples=300)
def test_shapes_that_do_not_fit_never_reach_a_provider(trusting, x, weight, bias, residual, given_shape):
    tensors = [None if shape is None else torch.zeros(shape) for shape in (x, weight, bias, residual)]
    wanted = given_shape if given_shape is not None else weight if weight is not None else x[-1:]
    fits = wanted != () and x[-len(wanted) :] == wanted and weight in (None, wanted) and residual in (None, x)
    fits = fits and (bias is None or (bias == wanted and weight is not None))
    run = partial(apply, "layer_norm", *tensors, normalized_shape=given_shape, provider=trusting)
    if fits:
        result = run()
        assert (result if residual is None else result[0]).shape == x
    else:
        with pytest.raises(UsageError):
            run()


def test_a_provider_that_overwrites_its_inputs_leaves_them_alone(file_of):
    x, residual, weight = randn(4, 8), randn(4, 8) + 1, randn(8)
    before = x.clone(), residual.clone()
    y, total = apply("rms_norm", x, weight, residual=residual, eps=1e-6, provider=file_of(MUTATING))
    assert torch.equal(x, before[0])
    assert torch.equal(residual, before[1])
    assert torch.equal(total, x + residual)
    torch.testing.assert_close(y, F.rms_norm(x + residual, (8,), weight, 1e-6))


# In a graph.


@pytest.mark.parametrize("provider", [*PROVIDERS, "compile"])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a_graph_without_breaks_serves_every_batch(norm, provider):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")

    def block(x, weight):
        return apply(norm, x, weight, normalized_shape=8, eps=1e-5, provider=provider) * 2

    compiled, counts = torch.compile(block, fullgraph=True, backend=counter), []
    for rows in (2, 3, 5, 7):
        x, weight = randn(rows, 8, requires_grad=True), randn(8, requires_grad=True)
        found, wanted = compiled(x, weight), block(x, weight)
        torch.testing.assert_close(found, wanted)
        gradients = zip(torch.autograd.grad(found.sum(), [x, weight]), torch.autograd.grad(wanted.sum(), [x, weight]), strict=True)
        for a, b in gradients:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        counts.append(counter.frame_count)
    # The second batch shows that the size changes; from then on it is open.
    assert counts[1] == counts[2] == counts[3]


def test_a_graph_that_keeps_all_sizes_open_takes_a_width_as_it_comes():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: apply("rms_norm", x, eps=1e-6), fullgraph=True, backend="aot_eager", dynamic=True)
    for shape in [(3, 8), (5, 16)]:
        torch.testing.assert_close(compiled(randn(*shape)), F.rms_norm(randn(*shape), shape[-1:], None, 1e-6))
