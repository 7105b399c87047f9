"""The norms written by hand: exact where the arithmetic is, and each convention the one that its models use."""

import pytest
import torch
from handmade import outputs_by, problem_of

from normbench.cases.case import Case
from normbench.oracle.problem import make_problem

pytestmark = pytest.mark.usefixtures("one_thread")


def y_of(case, **tensors):
    return outputs_by("eager", problem_of(case, **tensors))["y"]


def test_a_constant_row_is_its_bias_exactly_and_its_gradient_is_finite():
    case = Case.make("layer_norm", "backward", (1, 256), "float32")
    problem = problem_of(
        case, x=torch.full((1, 256), 1234.0), weight=torch.full((256,), 2.0), bias=torch.full((256,), 0.25), dy=torch.ones(1, 256)
    )
    outputs = outputs_by("eager", problem)
    assert (outputs["y"] == 0.25).all()
    assert outputs["dx"].isfinite().all()


@pytest.mark.parametrize("value", [1000.0, 60000.0, -60000.0], ids=["square overflows", "near the largest", "near the smallest"])
def test_large_float16_values_stay_finite(value):
    case = Case.make("rms_norm", "forward", (2, 64), "float16", weight=False)
    assert (y_of(case, x=torch.full((2, 64), value, dtype=torch.float16)).abs() == 1).all()


def test_zeros_stay_zeros_with_an_eps_that_float16_cannot_hold():
    case = Case.make("layer_norm", "forward", (1, 10), "float16", eps=1e-12, weight=False)
    assert (y_of(case, x=torch.zeros(1, 10, dtype=torch.float16)) == 0).all()


def test_gemma_adds_1_in_float32():
    case = Case.make("rms_norm", "forward", (1, 1), "bfloat16", eps=0, convention="gemma")
    y = y_of(case, x=torch.ones(1, 1, dtype=torch.bfloat16), weight=torch.tensor([15.8125], dtype=torch.bfloat16))
    # 16.8125 lies halfway between two bfloat16 values, 16.75 and 16.875: to even is 16.75 ...
    assert y.item() == 16.75
    fine = Case.make("rms_norm", "forward", (1, 1), "float32", eps=0, weight_dtype="bfloat16", convention="gemma")
    # ... and in float32 it shows that nothing was lost before.
    assert y_of(fine, x=torch.ones(1, 1), weight=torch.tensor([15.8125], dtype=torch.bfloat16)).item() == 16.8125


def test_llama_and_torch_conventions_differ_in_a_quarter_of_bfloat16_values():
    outputs = {}
    for convention in ("torch", "llama"):
        case = Case.make("rms_norm", "forward", (8, 4096), "bfloat16", convention=convention)
        outputs[convention] = outputs_by("eager", make_problem(case, device="cpu", seed=0))["y"]
    share = (outputs["torch"] != outputs["llama"]).float().mean().item()
    assert 0.15 < share < 0.35


def test_y_keeps_the_dtype_of_x_beside_a_float32_weight():
    for convention in ("torch", "llama", "gemma"):
        case = Case.make("rms_norm", "forward", (2, 8), "bfloat16", weight_dtype="float32", convention=convention)
        assert outputs_by("eager", make_problem(case, device="cpu", seed=0))["y"].dtype == torch.bfloat16


def test_the_second_output_is_the_sum_rounded_once():
    problem = make_problem(Case.make("rms_norm", "forward", (4, 64), "bfloat16", residual=True), device="cpu", seed=0)
    assert torch.equal(outputs_by("eager", problem)["residual_out"], (problem.x.double() + problem.residual.double()).bfloat16())
