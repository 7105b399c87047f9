"""The provider `transformer_engine`: the CUDA norms of NVIDIA's Transformer Engine, through the functions that its modules call.

The modules hold their parameters; here weight and bias come with the call, so an autograd function like theirs is made of
`layernorm_fwd`, `layernorm_bwd`, `rmsnorm_fwd` and `rmsnorm_bwd`. After a residual the sum is PyTorch's.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm
from ..registry import NormFunction, provider

__all__ = ["transformer_engine", "transformer_engine_unsupported"]

_ALL_MULTIPROCESSORS = 0
"""The `sm_margin`: how many multiprocessors a kernel leaves to others."""


def transformer_engine_unsupported(case: Case, device: str) -> str | None:
    """Return why Transformer Engine does not compute the case, or None."""
    name = "LayerNorm" if case.norm is Norm.LAYER_NORM else "RMSNorm"
    if device == "cpu":
        return "transformer_engine runs on CUDA only"
    if DType.FLOAT64 in (case.dtype, case.weight_dtype):
        return "transformer_engine computes in float32, which is not enough for float64"
    if case.weight_dtype is None:
        return f"{name} of transformer_engine always has a weight"
    if case.weight_dtype is not case.dtype:
        return f"{name} of transformer_engine computes in the dtype of its weight: {case.weight_dtype.value} here, for {case.dtype.value}"
    if case.norm is Norm.LAYER_NORM and not case.bias:
        return "LayerNorm of transformer_engine always has a bias"
    if case.norm is Norm.RMS_NORM and case.bias:
        return "RMSNorm of transformer_engine has no bias"
    if case.convention is Convention.LLAMA:
        return "RMSNorm of transformer_engine multiplies by the weight in float32 and rounds once; it has no llama convention"
    if case.is_empty:
        return "transformer_engine takes no empty input"
    return None


@provider("transformer_engine", norms=["layer_norm", "rms_norm"], per_case=True, supports=transformer_engine_unsupported)
def transformer_engine(case: Case) -> NormFunction:
    """Compute the case with Transformer Engine's kernel of its norm."""
    # Imported here and not where providers are loaded: it asks for the device, and that process will be forked. The first import loads
    # the libraries that the second needs.
    constants = importlib.import_module("transformer_engine.pytorch.constants")
    kernels = importlib.import_module("transformer_engine_torch")
    dtypes = constants.TE_DType
    apply = (_layer_norm if case.norm is Norm.LAYER_NORM else _rms_norm)(kernels, dtypes, case.convention is Convention.GEMMA)

    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        hidden = x if residual is None else x + residual
        y = apply(hidden.reshape(-1, hidden.shape[-1]), weight, bias, eps).reshape(hidden.shape)
        return y if residual is None else (y, hidden)

    return function


def _layer_norm(kernels: Any, dtypes: Any, adds_one: bool) -> Any:
    class LayerNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Any:
            x = x.contiguous()
            weight = weight.contiguous()
            y, mean, rstd = kernels.layernorm_fwd(
                x, weight, bias.contiguous(), eps, None, None, dtypes[x.dtype], _ALL_MULTIPROCESSORS, adds_one
            )
            ctx.save_for_backward(x, weight, mean, rstd)
            return y

        @staticmethod
        def backward(ctx: Any, dy: Tensor) -> Any:
            x, weight, mean, rstd = ctx.saved_tensors
            dx, dweight, dbias = kernels.layernorm_bwd(dy.contiguous(), x, mean, rstd, weight, _ALL_MULTIPROCESSORS, adds_one)
            return dx, dweight, dbias, None

    return LayerNorm.apply


def _rms_norm(kernels: Any, dtypes: Any, adds_one: bool) -> Any:
    class RMSNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: None, eps: float) -> Any:
            x = x.contiguous()
            weight = weight.contiguous()
            y, _, rstd = kernels.rmsnorm_fwd(x, weight, eps, None, None, dtypes[x.dtype], _ALL_MULTIPROCESSORS, adds_one)
            ctx.save_for_backward(x, weight, rstd)
            return y

        @staticmethod
        def backward(ctx: Any, dy: Tensor) -> Any:
            x, weight, rstd = ctx.saved_tensors
            dx, dweight = kernels.rmsnorm_bwd(dy.contiguous(), x, rstd, weight, _ALL_MULTIPROCESSORS, adds_one)
            return dx, dweight, None, None

    return RMSNorm.apply
