"""Every kernel of the package, compiled for GPUs that are not here, keeps every budget."""

from triton.runtime.jit import JITFunction

from normbench.inspection.budget import broken_budgets
from normbench.inspection.survey import Survey, cases_in_scope, survey
from normbench.inspection.tables import breach_rows
from normbench.kernels import backward, forward
from normbench.measure.threads import available_cores

# 0.4 s of one core for each machine code. LayerNorm with a residual needs the most registers and RMSNorm without one the fewest, so
# the other two are compiled for one dtype. A forward that saves its statistics is one that does not with two scalar stores more: the
# latter, which inference runs, is compiled for one dtype too. The other conventions differ in a cast or an addition: the widest
# backward on chip, and the looped forms. `normbench inspect --budget --convention torch,llama,gemma` has all of them.
EXTREMES = ("add_layer_norm", "rms_norm")
CASES = (
    *cases_in_scope(passes=("forward_backward",), dtypes=("bfloat16",)),
    *cases_in_scope(passes=("forward_backward",), dtypes=("float32", "float16"), norms=EXTREMES),
    *cases_in_scope(passes=("forward",), dtypes=("bfloat16",), norms=EXTREMES),
    *cases_in_scope(passes=("forward_backward",), dtypes=("bfloat16",), conventions=("llama", "gemma"), cols=(8192, 131_072)),
)


def jitted(module):
    """Return the names of the kernels that a module offers."""
    return {name for name in module.__all__ if isinstance(getattr(module, name), JITFunction)}


# One test for all: what two processes compile side by side, the second of two tests would compile again.
def test_every_kernel_dtype_width_and_architecture_is_within_budget():
    found = survey(Survey(providers=("triton",), cases=CASES, workers=available_cores()), observe=lambda *progress: None)
    assert {variant.kernel for variant in found.variants} == jitted(forward) | jitted(backward)
    assert found.skipped == ()
    broken = [breach for variant in found.variants for breach in broken_budgets(variant)]
    assert breach_rows(broken) == []
    assert sum(variant.figures.atomics for variant in found.variants) == 0, "sums would depend on who comes first"
