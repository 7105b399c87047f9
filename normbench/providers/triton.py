"""The provider `triton`: the kernels of `normbench.kernels`. Without a GPU they are checked in Triton's interpreter, never timed."""

from __future__ import annotations

from functools import partial

from ..case import Case, DType, Norm
from ..kernels.layer_norm import layer_norm
from ..kernels.rms_norm import rms_norm
from ..registry import NormFunction, provider

__all__ = ["triton", "triton_unsupported"]


def triton_unsupported(case: Case, device: str) -> str | None:
    """Return why the kernels do not take the case, or None; that they are not timed on a CPU is no reason."""
    if case.pass_.has_backward:
        return "forward only so far: there is no backward kernel yet"
    if DType.FLOAT64 in (case.dtype, case.weight_dtype):
        return "computes in float32, which is not enough for float64"
    return None


@provider("triton", norms=["layer_norm", "rms_norm"], per_case=True, supports=triton_unsupported, interpret_on_cpu=True)
def triton(case: Case) -> NormFunction:
    """Compute the case with the Triton kernel of its norm."""
    if case.norm is Norm.LAYER_NORM:
        return layer_norm
    return partial(rms_norm, convention=case.convention.value)
