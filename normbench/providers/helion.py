"""The provider `helion`: LayerNorm and RMSNorm written in Helion, forward only, with the configuration it picks without measuring.

Helion ships no norms, only examples; these kernels say what is to be computed, row by row in float32, and leave the rest to it. After a
residual the sum is PyTorch's. Its autotuner takes minutes per shape and is not run: settings say so.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm
from ..registry import NormFunction, provider
from .imports import import_before_fork

__all__ = ["helion", "helion_unsupported", "layer_norm", "rms_norm"]

hl = import_before_fork("helion.language")
_helion = import_before_fork("helion")
_EFFORT = {"autotune_effort": "none"}


def layer_norm(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    """Compute LayerNorm of x, of shape (rows, cols), the variance from centred values; source of a Helion kernel."""
    rows, _ = x.size()
    y = torch.empty_like(x)
    for tile in hl.tile(rows):
        wide = x[tile, :].to(torch.float32)
        centred = wide - torch.mean(wide, dim=-1)[:, None]
        value = centred * torch.rsqrt(torch.mean(centred * centred, dim=-1) + eps)[:, None]
        if weight is not None:
            value = value * weight[:].to(torch.float32)
        if bias is not None:
            value = value + bias[:].to(torch.float32)
        y[tile, :] = value.to(y.dtype)
    return y


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """Compute RMSNorm of x, of shape (rows, cols), multiplied by the weight in float32 and rounded once; source of a Helion kernel."""
    rows, _ = x.size()
    y = torch.empty_like(x)
    for tile in hl.tile(rows):
        wide = x[tile, :].to(torch.float32)
        value = wide * torch.rsqrt(torch.mean(wide * wide, dim=-1) + eps)[:, None]
        if weight is not None:
            value = value * weight[:].to(torch.float32)
        y[tile, :] = value.to(y.dtype)
    return y


def helion_unsupported(case: Case, device: str) -> str | None:
    """Return why the kernels above do not compute the case, or None."""
    if device == "cpu":
        return "helion's kernels run on CUDA only"
    if case.pass_.has_backward:
        return "forward only: the helion kernels here have no backward"
    if DType.FLOAT64 in (case.dtype, case.weight_dtype):
        return "the helion kernels here compute in float32, which is not enough for float64"
    if case.convention is not Convention.TORCH:
        return f"the helion kernels here are written for the torch convention, not {case.convention.value}"
    if case.norm is Norm.RMS_NORM and case.bias:
        return "the helion RMSNorm here has no bias"
    if case.is_empty:
        return "the helion kernels here take no empty input"
    return None


@provider("helion", norms=["layer_norm", "rms_norm"], per_case=True, supports=helion_unsupported, settings=_EFFORT)
def helion(case: Case) -> NormFunction:
    """Compute the case with a kernel of its own, compiled for its sizes when it is first called."""
    return make_function(case.norm)


def make_function(norm: Norm, **options: Any) -> NormFunction:
    """Return a function that computes the norm; `options` go to helion.kernel."""
    kernel = _helion.kernel(layer_norm if norm is Norm.LAYER_NORM else rms_norm, **_EFFORT, **options)

    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        hidden = x if residual is None else x + residual
        flat = hidden.reshape(-1, hidden.shape[-1])
        y = kernel(flat, weight, bias, eps) if norm is Norm.LAYER_NORM else kernel(flat, weight, eps)
        y = y.reshape(hidden.shape)
        return y if residual is None else (y, hidden)

    return function
