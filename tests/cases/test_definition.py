"""Definitions: what else than the norm's formula a provider may say it computes, and that it is held to that."""

import math

import pytest
import torch
from handmade import exact_of, problem_of

from normbench.cases.case import Case
from normbench.cases.definition import Definition
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import outputs_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_eps_outside_the_root_is_a_division_by_root_plus_eps():
    case = Case.make("rms_norm", "forward", (1, 2), "float64", eps=1.0, weight=False)
    # The mean square of 3 and 3 is 9: 3 / (3 + 1), and with eps inside 3 / sqrt(10).
    problem = problem_of(case, x=torch.full((1, 2), 3.0, dtype=torch.float64))
    assert exact_of(problem, Definition.EPS_OUTSIDE_ROOT)["y"].tolist() == [[0.75, 0.75]]
    assert exact_of(problem, Definition.FORMULA)["y"][0, 0].item() == pytest.approx(3 / math.sqrt(10))


@pytest.mark.parametrize("eps", [1e-6, 1.0], ids=["eps that hardly matters", "eps of the size of x"])
def test_the_gradient_of_eps_outside_the_root_is_autograds(eps):
    case = Case.make("rms_norm", "backward", (5, 7), "float64", eps=eps)
    problem = make_problem(case, device="cpu", seed=0)
    x, weight = problem.x.detach().requires_grad_(), problem.weight.detach().requires_grad_()
    y = x / (x.square().mean(-1, keepdim=True).sqrt() + eps) * weight
    dx, dweight = torch.autograd.grad(y, (x, weight), problem.dy)
    found = exact_of(problem, Definition.EPS_OUTSIDE_ROOT)
    torch.testing.assert_close(found["dx"], dx, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found["dweight"], dweight, rtol=1e-12, atol=1e-13)


def test_an_unrounded_sum_is_normalised_as_it_is_and_returned_rounded():
    case = Case.make("rms_norm", "forward", (1, 2), "bfloat16", residual=True, eps=0, weight=False)
    # 1 + 2**-9 lies between two bfloat16 values; rounded it is 1, and a row of equal ones would be normalised to 1 and 1.
    x, residual = torch.tensor([[1.0, 1.0]]).bfloat16(), torch.tensor([[2.0**-9, 0.0]]).bfloat16()
    problem = problem_of(case, x=x, residual=residual)
    unrounded, rounded = exact_of(problem, Definition.UNROUNDED_SUM), exact_of(problem, Definition.FORMULA)
    assert rounded["y"].tolist() == [[1.0, 1.0]]
    assert unrounded["y"][0, 0] > 1.0 > unrounded["y"][0, 1]
    assert unrounded["residual_out"].tolist() == rounded["residual_out"].tolist() == [[1.0, 1.0]]


def guide_outputs(case):
    problem = make_problem(case, device="cpu", seed=0)
    with torch.set_grad_enabled(case.pass_.has_backward):
        return problem, {"guide": outputs_of(problem, Registry().resolve("guide").prepare(case))}


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("eps", [1e-6, 1.0], ids=["eps that hardly matters", "eps of the size of x"])
def test_a_provider_passes_against_its_own_definition(dtype, eps):
    case = Case.make("rms_norm", "forward_backward", (65, 96), dtype, eps=eps, residual=True)
    problem, outputs = guide_outputs(case)
    assert describe_failure(check(case, problem, outputs, Definition.EPS_OUTSIDE_ROOT)["guide"]) == ""


def test_and_fails_against_the_formula_where_eps_matters():
    case = Case.make("rms_norm", "forward_backward", (65, 96), "float32", eps=1.0)
    problem, outputs = guide_outputs(case)
    assert describe_failure(check(case, problem, outputs)["guide"]).startswith("y is off by up to")


def test_what_computes_the_formula_fails_against_another():
    case = Case.make("rms_norm", "forward", (65, 96), "float32", eps=1.0)
    problem = make_problem(case, device="cpu", seed=0)
    outputs = {"aten": outputs_of(problem, Registry().resolve("aten").prepare(case))}
    assert describe_failure(check(case, problem, outputs, Definition.EPS_OUTSIDE_ROOT)["aten"]).startswith("y is off by up to")


def test_only_rounding_elsewhere_leaves_it_the_same_function():
    assert [one.value for one in Definition if one.is_another_function] == ["eps_outside_root"]
    assert all(one.text for one in Definition)
