"""The Triton provider: what it takes, and that a machine without a GPU checks it and does not time it."""

import pytest

from normbench.case import Case
from normbench.registry import Registry


def unsupported(pass_="forward", dtype="bfloat16", device="cuda", **options):
    return Registry().resolve("triton").unsupported(Case.make("rms_norm", pass_, (4, 64), dtype, **options), device)


@pytest.mark.parametrize("pass_", ["backward", "forward_backward"])
def test_a_pass_with_a_backward_is_refused(pass_):
    assert unsupported(pass_) == "forward only so far: there is no backward kernel yet"


def test_float64_is_refused_in_x_and_in_the_weight():
    reason = "computes in float32, which is not enough for float64"
    assert unsupported(dtype="float64") == reason
    assert unsupported(weight_dtype="float64") == reason


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("convention", ["torch", "llama", "gemma"])
def test_every_convention_is_taken(convention, device):
    assert unsupported(convention=convention, device=device) is None


def test_it_is_interpreted_on_a_cpu_and_only_there():
    triton, case = Registry().resolve("triton"), Case.make("rms_norm", "forward", (4, 64), "bfloat16")
    assert triton.is_interpreted(case, "cpu")
    assert not triton.is_interpreted(case, "cuda")
