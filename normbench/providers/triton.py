"""The provider `triton`: the kernels of `normbench.kernels`. Without a GPU they are checked in Triton's interpreter, never timed."""

from __future__ import annotations

from functools import partial

from ..cases.case import Case, DType
from ..kernels.operator import norm
from ..registry import NormFunction, provider

__all__ = ["triton", "triton_unsupported"]


def triton_unsupported(case: Case, device: str) -> str | None:
    """Return why the kernels do not take the case, or None; that they are not timed on a CPU is no reason."""
    if case.weight_dtype is DType.FLOAT64 and case.dtype is not DType.FLOAT64:
        return f"computes in float32 for {case.dtype.value}, which is not enough for a float64 weight"
    return None


@provider("triton", norms=["layer_norm", "rms_norm"], per_case=True, supports=triton_unsupported, interpret_on_cpu=True)
def triton(case: Case) -> NormFunction:
    """Compute the case with the Triton kernels of its norm."""
    return partial(norm, name=case.norm.value, convention=case.convention.value)
