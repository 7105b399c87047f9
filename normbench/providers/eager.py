"""The provider `eager`: each norm written by hand in primitive tensor operations, as it stands in model code.

Statistics are taken in float32 (float64 for float64 input). x and residual have shape (..., cols), weight and bias (cols,); y has
the shape and dtype of x. With a residual, the sum is rounded once to its dtype, the norm reads the rounded sum, and both are returned.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import Case, Convention, Norm
from ..registry import NormFunction, provider

__all__ = ["function_of", "layer_norm", "rms_norm", "rms_norm_gemma", "rms_norm_llama"]


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute LayerNorm (arXiv:1607.06450, eq. 4), the variance from centred values."""
    hidden = x if residual is None else x + residual
    wide = _wide(hidden)
    centred = wide - wide.mean(-1, keepdim=True)
    y = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    y = y.to(x.dtype)
    return y if residual is None else (y, hidden)


def rms_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float) -> Tensor | tuple[Tensor, Tensor]:
    """Compute RMSNorm (arXiv:1910.07467, eq. 4), multiplied by the weight in float32 and rounded once."""
    hidden = x if residual is None else x + residual
    wide = _wide(hidden)
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    y = y.to(x.dtype)
    return y if residual is None else (y, hidden)


def rms_norm_llama(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute RMSNorm as LlamaRMSNorm of Hugging Face does: rounded to the dtype of x, then multiplied by the weight."""
    hidden = x if residual is None else x + residual
    wide = _wide(hidden)
    y = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
    if weight is not None:
        y = weight * y
    if bias is not None:
        y = y + bias
    y = y.to(x.dtype)
    return y if residual is None else (y, hidden)


def rms_norm_gemma(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute RMSNorm as GemmaRMSNorm of Hugging Face does: multiplied by 1 + weight in float32 and rounded once."""
    hidden = x if residual is None else x + residual
    wide = _wide(hidden)
    y = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * (1.0 + weight.to(y.dtype))
    if bias is not None:
        y = y + bias
    y = y.to(x.dtype)
    return y if residual is None else (y, hidden)


def function_of(case: Case) -> NormFunction:
    """Return the function above that has the norm and the weight convention of the case."""
    if case.norm is Norm.LAYER_NORM:
        return layer_norm
    return {Convention.TORCH: rms_norm, Convention.LLAMA: rms_norm_llama, Convention.GEMMA: rms_norm_gemma}[case.convention]


@provider("eager", norms=["layer_norm", "rms_norm"], per_case=True)
def eager(case: Case) -> NormFunction:
    """Compute the case with the function written for its norm and convention."""
    return function_of(case)
