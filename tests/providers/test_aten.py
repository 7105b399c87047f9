"""PyTorch's own norms: right where they say they are, and refused in advance where they would raise."""

import pytest
import torch
from handmade import outputs_by
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.cases.case import Case
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # PyTorch tells once per process that F.rms_norm has no fused form for a weight of another dtype.
    pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight"),
]


def failure(case, seed=0):
    problem = make_problem(case, device="cpu", seed=seed)
    return describe_failure(check(case, problem, {"aten": outputs_by("aten", problem)})["aten"])


def unsupported(case, device="cpu"):
    return Registry().resolve("aten").unsupported(case, device)


DTYPES = st.sampled_from(["float64", "float32", "bfloat16", "float16"])


@given(
    norm=st.sampled_from(["layer_norm", "rms_norm"]),
    dtype=DTYPES,
    weight_dtype=DTYPES,
    weight=st.booleans(),
    convention=st.sampled_from(["torch", "llama", "gemma"]),
    residual=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_whatever_is_not_refused_is_right_in_the_forward(norm, dtype, weight_dtype, weight, convention, residual, seed):
    case = Case.make(
        norm,
        "forward",
        (3, 33),
        dtype,
        weight=weight,
        weight_dtype=weight_dtype if weight else None,
        residual=residual,
        convention=convention if norm == "rms_norm" else "torch",
    )
    if unsupported(case) is None:
        assert failure(case, seed) == ""


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(
    ("norm", "dtype"),
    [
        pytest.param("layer_norm", "float32", id="layer_norm-float32"),
        pytest.param("rms_norm", "float32", id="rms_norm-float32"),
        pytest.param("rms_norm", "bfloat16", id="rms_norm-bfloat16"),
        pytest.param("rms_norm", "float16", id="rms_norm-float16"),
    ],
)
def test_gradients_are_right(norm, dtype, residual):
    assert failure(Case.make(norm, "backward", (300, 65), dtype, residual=residual)) == ""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_layer_norm_of_16_bits_adds_its_column_gradients_up_in_16_bits_on_cpu(dtype):
    # Seen in torch 2.13; when PyTorch mends it this test fails, and `gradients_are_right` above takes the dtypes in.
    problem = make_problem(Case.make("layer_norm", "backward", (4096, 8), dtype), device="cpu", seed=0)
    reason = describe_failure(check(problem.case, problem, {"aten": outputs_by("aten", problem)})["aten"])
    assert reason.startswith("dweight is off by up to")
    assert "dbias is off by up to" in reason


def test_a_sum_of_4096_ones_ends_at_256_in_pytorchs_bfloat16_layer_norm():
    problem = make_problem(Case.make("layer_norm", "backward", (4096, 8), "bfloat16"), device="cpu", seed=0)
    problem.dy.fill_(1.0)
    assert (outputs_by("aten", problem)["dbias"] == 256).all()


@pytest.mark.parametrize("shape", [(0, 1024), (1, 0, 10), (1, 0)], ids=["no rows", "no rows in three sizes", "no columns"])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_empty_input_gives_empty_output_and_zero_column_gradients(norm, shape):
    assert failure(Case.make(norm, "forward_backward", shape, "float32")) == ""


@pytest.mark.parametrize(
    ("options", "device", "reason"),
    [
        pytest.param(
            {"dtype": "float32", "weight_dtype": "bfloat16"},
            "cpu",
            "F.layer_norm on cpu takes a float32 weight only beside bfloat16 or float16; here bfloat16 beside float32",
            id="cpu",
        ),
        pytest.param(
            {"dtype": "float16", "weight_dtype": "float32"},
            "cuda",
            "F.layer_norm on cuda takes no weight of another dtype than its input; here float32 beside float16",
            id="cuda",
        ),
        pytest.param({"dtype": "bfloat16", "weight_dtype": "float32"}, "cpu", None, id="float32 weight on cpu"),
    ],
)
def test_mixed_dtypes_that_pytorch_refuses_are_named_beforehand(options, device, reason):
    assert unsupported(Case.make("layer_norm", "forward", (4, 8), **options), device) == reason


def test_what_is_refused_on_cpu_does_raise():
    case = Case.make("layer_norm", "forward", (4, 8), "float32", weight_dtype="bfloat16")
    with pytest.raises(RuntimeError, match="mixed dtype"):
        outputs_by("aten", make_problem(case, device="cpu", seed=0))


def test_rms_norm_with_a_bias_is_refused():
    assert unsupported(Case.make("rms_norm", "forward", (4, 8), "float32", bias=True)) == "F.rms_norm has no bias"


def test_nothing_is_computed_in_place():
    problem = make_problem(Case.make("rms_norm", "forward", (4, 8), "float32", residual=True), device="cpu", seed=0)
    before = [t.clone() for t in (problem.x, problem.residual)]
    outputs_by("aten", problem)
    assert torch.equal(problem.x, before[0])
    assert torch.equal(problem.residual, before[1])
