"""The Triton provider: what it takes, and that a machine without a GPU checks it and does not time it."""

import pytest

from normbench.cases.case import Case
from normbench.registry import Registry

DTYPES = ["float64", "float32", "bfloat16", "float16"]


def unsupported(norm="rms_norm", pass_="forward_backward", dtype="bfloat16", device="cuda", **options):
    return Registry().resolve("triton").unsupported(Case.make(norm, pass_, (4, 64), dtype, **options), device)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
def test_every_pass_and_dtype_is_taken(pass_, residual, dtype, device):
    assert unsupported("layer_norm", pass_, dtype, device, residual=residual) is None


@pytest.mark.parametrize("convention", ["torch", "llama", "gemma"])
@pytest.mark.parametrize("options", [{}, {"bias": True}, {"weight": False}, {"eps": 0.0}], ids=str)
def test_every_convention_is_taken_with_a_bias_and_without_a_weight(convention, options):
    assert unsupported(convention=convention, **options) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weight_dtype", DTYPES)
def test_a_weight_of_any_dtype_is_taken_but_one_more_exact_than_the_computation(dtype, weight_dtype):
    reason = unsupported(dtype=dtype, weight_dtype=weight_dtype)
    if weight_dtype == "float64" and dtype != "float64":
        assert reason == f"computes in float32 for {dtype}, which is not enough for a float64 weight"
    else:
        assert reason is None


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_it_is_interpreted_on_a_cpu_and_only_there(norm):
    triton, case = Registry().resolve("triton"), Case.make(norm, "forward", (4, 64), "bfloat16")
    assert triton.is_interpreted(case, "cpu")
    assert not triton.is_interpreted(case, "cuda")
