"""The provider `aten`: `F.layer_norm` and `F.rms_norm`, composed as their users compose them where PyTorch has no fused form."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm
from ..registry import NormFunction, provider

__all__ = ["aten", "aten_unsupported"]


def _layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    hidden = x if residual is None else x + residual
    y = F.layer_norm(hidden, hidden.shape[-1:], weight, bias, eps)
    return y if residual is None else (y, hidden)


def _rms_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float) -> Tensor | tuple[Tensor, Tensor]:
    hidden = x if residual is None else x + residual
    y = F.rms_norm(hidden, hidden.shape[-1:], weight, eps)
    return y if residual is None else (y, hidden)


def _rms_norm_llama(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    hidden = x if residual is None else x + residual
    y = F.rms_norm(hidden, hidden.shape[-1:], None, eps)
    if weight is not None:
        y = (weight * y).to(x.dtype)
    return y if residual is None else (y, hidden)


def _rms_norm_gemma(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    hidden = x if residual is None else x + residual
    # 1 + weight rounded to bfloat16 loses the weight's low bits (15.8125 + 1 gives 16.75), so both go to float32.
    wide = torch.promote_types(x.dtype, torch.float32)
    factor = None if weight is None else 1.0 + weight.to(wide)
    y = F.rms_norm(hidden.to(wide), hidden.shape[-1:], factor, eps).to(x.dtype)
    return y if residual is None else (y, hidden)


def aten_unsupported(case: Case, device: str) -> str | None:
    """Return why PyTorch's own functions do not take the case, or None."""
    if case.norm is Norm.RMS_NORM:
        return "F.rms_norm has no bias" if case.bias else None
    weight_dtype = case.weight_dtype or case.dtype
    if weight_dtype is case.dtype:
        return None
    on_cpu = torch.device(device).type == "cpu"
    if on_cpu and weight_dtype is DType.FLOAT32 and case.dtype in (DType.BFLOAT16, DType.FLOAT16):
        return None
    rule = "takes a float32 weight only beside bfloat16 or float16" if on_cpu else "takes no weight of another dtype than its input"
    return f"F.layer_norm on {torch.device(device).type} {rule}; here {weight_dtype.value} beside {case.dtype.value}"


@provider("aten", norms=["layer_norm", "rms_norm"], per_case=True, supports=aten_unsupported)
def aten(case: Case) -> NormFunction:
    """Compute the case with PyTorch's own norm of that name."""
    if case.norm is Norm.LAYER_NORM:
        return _layer_norm
    return {Convention.TORCH: _rms_norm, Convention.LLAMA: _rms_norm_llama, Convention.GEMMA: _rms_norm_gemma}[case.convention]
