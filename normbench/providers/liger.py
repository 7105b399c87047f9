"""The provider `liger`: the Triton kernels of liger-kernel, with the casting mode that rounds as the case's convention does.

Its mode "llama" rounds xhat to the dtype of x before the weight, "gemma" computes in float32 and rounds once; with the offset 1 that is
Gemma's 1 + weight, with the offset 0 the torch convention. (Its mode "none" computes in the dtype of x: no convention here is as
inexact.) RMSNorm after a residual is its fused kernel where there is a weight; LayerNorm has none, so the sum is PyTorch's.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm
from ..registry import NormFunction, provider
from .imports import import_before_fork

__all__ = ["liger", "liger_unsupported"]

_fused_add_rms_norm = import_before_fork("liger_kernel.ops.fused_add_rms_norm").LigerFusedAddRMSNormFunction.apply
_layer_norm = import_before_fork("liger_kernel.ops.layer_norm").LigerLayerNormFunction.apply
_rms_norm = import_before_fork("liger_kernel.ops.rms_norm").LigerRMSNormFunction.apply

MOST_COLUMNS = 65536
"""A row is one block of Triton's (liger_kernel.ops.utils.calculate_settings)."""

_MODES = {Convention.TORCH: (0.0, "gemma"), Convention.LLAMA: (0.0, "llama"), Convention.GEMMA: (1.0, "gemma")}
_OVERWRITE_DY = False


def liger_unsupported(case: Case, device: str) -> str | None:
    """Return why Liger does not compute the case, or None."""
    if device == "cpu":
        # Triton's interpreter hands eps over as a Python number, which has no `to`, and knows no libdevice.rsqrt.
        return "liger's kernels run on CUDA only, and Triton's interpreter does not take them"
    if DType.FLOAT64 in (case.dtype, case.weight_dtype):
        return "liger computes in float32, which is not enough for float64"
    if case.norm is Norm.LAYER_NORM and not case.bias:
        return "LigerLayerNormFunction needs a weight and a bias"
    if case.norm is Norm.RMS_NORM and case.bias:
        return "LigerRMSNormFunction has no bias"
    if case.cols > MOST_COLUMNS:
        return f"liger refuses more than {MOST_COLUMNS} columns, and here are {case.cols}"
    if case.cols == 0:
        return "liger takes no rows without columns"
    return None


def liger_settings(case: Case) -> dict[str, Any]:
    """Return the casting mode, and that dx is not written over the upstream gradient, as Liger does by default."""
    if case.norm is Norm.LAYER_NORM:
        return {}
    offset, mode = _MODES[case.convention]
    return {"casting_mode": mode, "offset": offset, "in_place": _OVERWRITE_DY}


@provider("liger", norms=["layer_norm", "rms_norm"], per_case=True, supports=liger_unsupported, settings=liger_settings)
def liger(case: Case) -> NormFunction:
    """Compute the case with Liger's kernel of its norm."""
    return _layer_norm_function if case.norm is Norm.LAYER_NORM else _rms_norm_function(*_MODES[case.convention])


def _layer_norm_function(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    hidden = x if residual is None else x + residual
    y: Tensor = _layer_norm(hidden, weight, bias, eps)
    return y if residual is None else (y, hidden)


def _rms_norm_function(offset: float, mode: str) -> NormFunction:
    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        if residual is None:
            y: Tensor = _rms_norm(x, weight, eps, offset, mode, _OVERWRITE_DY)
            return y
        if weight is None:
            hidden = x + residual
            return _rms_norm(hidden, None, eps, offset, mode, _OVERWRITE_DY), hidden
        y, hidden = _fused_add_rms_norm(x, residual, weight, eps, offset, mode, _OVERWRITE_DY)
        return y, hidden

    return function
