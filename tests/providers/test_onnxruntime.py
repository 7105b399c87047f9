"""ONNX Runtime on a CPU: right within what it takes, the sum it normalises with a residual, and where it is not good enough."""

import pytest
import torch
from handmade import outputs_by
from hypothesis import assume, given, settings

from normbench.cases.definition import Definition
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry

from .peers import cases, failure, layer, rms

pytest.importorskip("onnxruntime", reason="needs onnxruntime")
pytest.importorskip("onnx", reason="needs onnx")
pytestmark = pytest.mark.usefixtures("one_thread")


def unsupported(case, device="cpu"):
    return Registry().resolve("onnxruntime").unsupported(case, device)


@given(case=cases(weight=True, same_dtype=True))
@settings(deadline=None, max_examples=50)
def test_whatever_is_not_refused_is_right(case):
    assume(unsupported(case) is None)
    assert failure("onnxruntime", case) == ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("make", [layer, rms])
@pytest.mark.parametrize("residual", [False, True])
def test_each_operator_runs_in_each_dtype(make, dtype, residual):
    assert failure("onnxruntime", make(shape=(2, 3, 64), dtype=dtype, residual=residual)) == ""


@pytest.mark.parametrize("make", [layer, rms])
def test_a_16_bit_residual_is_normalised_before_it_is_rounded(make):
    case = make(shape=(300, 65), dtype="bfloat16", residual=True)
    assert Registry().resolve("onnxruntime").definition(case) is Definition.UNROUNDED_SUM
    problem = make_problem(case, device="cpu", seed=0)
    outputs = {"onnxruntime": outputs_by("onnxruntime", problem)}
    assert describe_failure(check(case, problem, outputs)["onnxruntime"]).startswith("y is off by up to")


def test_the_operators_that_add_a_residual_sum_wide_rows_in_order():
    # Seen in 1.32: past some 4096 columns their float32 error grows with the width, to 100 ulps at 65536. They are told wrong there.
    for make in (layer, rms):
        assert failure("onnxruntime", make(shape=(8, 65536), residual=True)).startswith("y is off by up to")
        assert failure("onnxruntime", make(shape=(8, 65536))) == ""


def test_every_call_returns_new_tensors_and_leaves_its_inputs_alone():
    case = rms(residual=True)
    problem = make_problem(case, device="cpu", seed=0)
    before = [tensor.clone() for tensor in (problem.x, problem.residual, problem.weight)]
    function = Registry().resolve("onnxruntime").prepare(case)
    (first, _), (second, _) = (function(problem.x, problem.weight, None, problem.residual, case.eps) for _ in range(2))
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, second)
    assert all(torch.equal(one, other) for one, other in zip(before, (problem.x, problem.residual, problem.weight), strict=True))


def test_tensors_with_gaps_are_read_right():
    case = rms(shape=(4, 64))
    problem = make_problem(case, device="cpu", seed=0)
    wide, spread = torch.full((4, 192), torch.nan), torch.full((128,), torch.nan)
    wide[:, 64:128], spread[::2] = problem.x, problem.weight
    function = Registry().resolve("onnxruntime").prepare(case)
    apart = function(wide[:, 64:128], spread[::2], None, None, case.eps)
    assert torch.equal(apart, function(problem.x, problem.weight, None, None, case.eps))


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param(rms("forward_backward"), "forward only: a session of ONNX Runtime computes no gradients", id="backward"),
        pytest.param(layer(weight=False), "LayerNormalization always has a weight", id="no weight"),
        pytest.param(rms(residual=True, bias=True), "SkipSimplifiedLayerNormalization has no bias after the norm", id="bias"),
        pytest.param(
            rms(dtype="bfloat16", weight_dtype="float32"),
            "SimplifiedLayerNormalization takes a weight of its input's dtype only; here float32 beside bfloat16",
            id="mixed dtypes",
        ),
        pytest.param(
            rms(convention="llama"),
            "SimplifiedLayerNormalization multiplies by the weight in float32 and rounds once; it has no llama convention",
            id="convention",
        ),
        pytest.param(layer(dtype="float64"), "LayerNormalization keeps eps in float32, which is not enough for float64", id="float64"),
        pytest.param(layer(dtype="float64", residual=True), "SkipLayerNormalization takes no float64", id="float64 and residual"),
        pytest.param(rms(shape=(0, 16)), "ONNX Runtime binds no output without elements", id="empty"),
    ],
)
def test_what_it_does_not_compute_is_refused(case, reason):
    assert unsupported(case) == reason


def test_without_its_cuda_provider_a_gpu_is_refused_with_the_package_that_has_it():
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime is built for CUDA")
    assert unsupported(rms(), "cuda").endswith("pip install 'normbench[onnxruntime-gpu]' in its place")
