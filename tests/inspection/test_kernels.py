"""Every kernel of the package, compiled for GPUs that are not here, keeps every budget."""

from triton.runtime.jit import JITFunction

from normbench.cases.case import Convention, DType
from normbench.host.threads import available_cores
from normbench.inspection.budget import broken_budgets
from normbench.inspection.scope import CONVENTIONS
from normbench.inspection.survey import Survey, cases_in_scope, survey
from normbench.inspection.tables import breach_rows
from normbench.kernels import backward, forward


def rounds_nothing(case):
    """Say whether llama's rounding of xhat to the dtype of x leaves torch's machine code: tested below at one width."""
    return case.convention is Convention.LLAMA and case.dtype is DType.FLOAT32


# All that `normbench inspect --budget` compiles, less what is the same code: 2052 to compile, 0.2 s of one core each. A sample
# would not do. Registers are allocated by no rule that it could follow: of 4608 variants two spilled, the forward of llama's
# add_rms_norm in float16 of 16384 columns, on sm_80 only without statistics saved and on sm_90 only with them.
CASES = tuple(case for case in cases_in_scope(conventions=CONVENTIONS) if not rounds_nothing(case))


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


def test_llama_in_float32_is_the_machine_code_of_torch():
    cases = cases_in_scope(norms=("add_rms_norm",), dtypes=("float32",), conventions=("torch", "llama"), cols=(16_384,))
    found = survey(Survey(providers=("triton",), cases=cases, architectures=("sm_90",)), observe=lambda *progress: None)
    codes = {
        convention: [
            (one.kernel, one.pass_, one.figures.code_hash) for one in found.variants if one.constants.get("CONVENTION") == convention
        ]
        for convention in ("torch", "llama")
    }
    assert len(codes["torch"]) == 4, "two forwards, the backward in blocks of columns and its row means"
    assert codes["llama"] == codes["torch"]
