"""The variant whose eps stands outside the root: right by its own definition, another function than RMSNorm, and never without a label."""

import pytest
import torch
from handmade import outputs_by, problem_of

from normbench.cases.definition import Definition
from normbench.registry import Registry

from .peers import failure, layer, rms

pytestmark = pytest.mark.usefixtures("one_thread")


def unsupported(case):
    return Registry().resolve("guide").unsupported(case, "cpu")


def test_it_says_that_it_computes_something_else():
    assert Registry().resolve("guide").definition(rms()) is Definition.EPS_OUTSIDE_ROOT
    assert Definition.EPS_OUTSIDE_ROOT.is_another_function


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_it_is_right_by_its_own_definition(dtype, residual):
    assert failure("guide", rms("forward_backward", (65, 96), dtype, residual=residual)) == ""


def test_small_rows_tell_it_from_rms_norm():
    # mean(x^2) = 1e-6 = eps: RMSNorm gives 1 / sqrt(2), with eps outside it is 1e-3 / (1e-3 + 1e-6).
    problem = problem_of(rms(shape=(1, 8), weight=False), x=torch.full((1, 8), 1e-3))
    assert outputs_by("guide", problem)["y"][0, 0].item() == pytest.approx(1 / 1.001)
    assert outputs_by("aten", problem)["y"][0, 0].item() == pytest.approx(2**-0.5)


def test_the_gradient_of_a_row_of_zeros_is_not_a_number_where_rms_norms_is():
    problem = problem_of(rms("backward", (1, 8), weight=False), x=torch.zeros(1, 8), dy=torch.ones(1, 8))
    assert outputs_by("guide", problem)["dx"].isnan().all()
    assert outputs_by("aten", problem)["dx"].isfinite().all()


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param(layer(), "guide has no layer_norm", id="layer_norm"),
        pytest.param(rms(convention="llama"), "is written for the torch convention only, not llama", id="convention"),
        pytest.param(rms(bias=True), "has no bias", id="bias"),
    ],
)
def test_what_it_is_not_defined_for_is_refused(case, reason):
    assert unsupported(case).endswith(reason)
