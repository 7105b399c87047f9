"""The Helion kernels by Helion's own reference mode, which runs their source in PyTorch on a CPU."""

import pytest

from normbench.cases.case import Norm
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import outputs_of

from .peers import layer, rms

pytest.importorskip("helion", reason="needs helion")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="all tensors"),
        pytest.param({"weight": False}, id="no weight"),
        pytest.param({"weight_dtype": "float32", "residual": True}, id="mixed dtypes and a residual"),
    ],
)
@pytest.mark.parametrize("make", [layer, rms])
def test_the_source_of_the_kernels_is_right(make, options, dtype):
    import helion

    from normbench.providers.helion import make_function

    case = make(shape=(2, 9, 100), dtype=dtype, **options)
    problem = make_problem(case, device="cpu", seed=0)
    outputs = {"helion": outputs_of(problem, make_function(case.norm, ref_mode=helion.RefMode.EAGER))}
    assert describe_failure(check(case, problem, outputs)["helion"]) == ""


# A width that is no power of two, where padded lanes would count into the variance, and one that is.
@pytest.mark.parametrize("cols", [100, 128])
def test_helion_compiles_the_layer_norm_and_masks_what_pads_a_row(cols):
    import helion
    import torch

    from normbench.providers.helion import layer_norm

    kernel = helion.kernel(layer_norm, autotune_effort="none")
    bound = kernel.bind((torch.ones(40, cols), torch.ones(cols), torch.ones(cols), 1e-5))
    code = bound.to_triton_code(bound.config_spec.default_config())
    assert "@triton.jit" in code
    assert ("tl.where(mask" in code) == (cols == 100)


def test_it_is_not_autotuned_and_says_so():
    assert Registry().resolve("helion").settings(rms()) == {"autotune_effort": "none"}
    assert set(Registry().resolve("helion").implementations) == set(Norm)
