"""The provider `apex`: the fused CUDA norms of NVIDIA Apex.

They round xhat to the dtype of the output before they multiply by the weight (csrc/layer_norm_cuda_kernel.cu, cuApplyLayerNorm_): in 16
bits that is the llama convention for RMSNorm, and for LayerNorm no convention that is known here. After a residual the sum is PyTorch's.
"""

from __future__ import annotations

import importlib

from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm
from ..registry import NormFunction, provider

__all__ = ["apex", "apex_unsupported"]


def apex_unsupported(case: Case, device: str) -> str | None:
    """Return why Apex does not compute the case, or None."""
    is_wide = case.dtype in (DType.FLOAT32, DType.FLOAT64)
    if device == "cpu":
        return "apex's fused norms run on CUDA only"
    if case.weight_dtype is not None and case.weight_dtype is not case.dtype:
        return f"apex's mixed norms return the dtype of the weight: {case.weight_dtype.value} here, for {case.dtype.value}"
    if case.norm is Norm.LAYER_NORM and case.weight_dtype is not None and not case.bias:
        return "apex's fused LayerNorm has weight and bias, or neither"
    if case.norm is Norm.RMS_NORM and case.bias:
        return "apex's fused RMSNorm has no bias"
    if case.convention is Convention.GEMMA:
        return "apex's fused RMSNorm multiplies by the weight, not by 1 + weight"
    if case.weight_dtype is not None and not is_wide and case.convention is not Convention.LLAMA:
        return f"apex rounds to {case.dtype.value} before it multiplies by the weight, which only the llama convention of rms_norm does"
    if case.is_empty:
        return "apex takes no empty input"
    return None


@provider("apex", norms=["layer_norm", "rms_norm"], per_case=True, supports=apex_unsupported)
def apex(case: Case) -> NormFunction:
    """Compute the case with Apex's fused norm, as its modules call it."""
    # Imported here and not where providers are loaded: it loads CUDA, and that process will be forked.
    fused = importlib.import_module("apex.normalization.fused_layer_norm")
    shape = (case.cols,)
    is_layer_norm = case.norm is Norm.LAYER_NORM

    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        hidden = x if residual is None else x + residual
        if weight is None:
            y = (fused.fused_layer_norm if is_layer_norm else fused.fused_rms_norm)(hidden, shape, eps)
        elif is_layer_norm:
            y = fused.fused_layer_norm_affine(hidden, weight, bias, shape, eps)
        else:
            y = fused.fused_rms_norm_affine(hidden, weight, shape, eps)
        return y if residual is None else (y, hidden)

    return function
