"""The provider `quack`: the CuTe kernels of quack-kernels, RMSNorm with a fused residual and LayerNorm without.

Its RMSNorm adds the residual in float32 and normalises that sum; what it returns as the new residual is rounded. LayerNorm has no
autograd function of its own, so one is made here of its forward and its backward; after a residual the sum is PyTorch's.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from ..cases.case import Case, Convention, DType, Norm, Pass
from ..cases.definition import Definition
from ..registry import NormFunction, provider

__all__ = ["quack", "quack_definition", "quack_unsupported"]

MOST_COLUMNS_OF_A_FLOAT32_BACKWARD = 128 * 1024
"""RMSNormBackward refuses more (quack/rmsnorm.py)."""


def quack_unsupported(case: Case, device: str) -> str | None:
    """Return why quack does not compute the case, or None."""
    if device == "cpu":
        return "quack's kernels run on CUDA only"
    if DType.FLOAT64 in (case.dtype, case.weight_dtype):
        return "quack computes in float32, which is not enough for float64"
    if case.convention is Convention.LLAMA:
        return "quack.rmsnorm multiplies by the weight in float32 and rounds once; it has no llama convention"
    if case.cols == 0:
        return "quack takes no rows without columns"
    if case.norm is Norm.LAYER_NORM and case.weight_dtype is not DType.FLOAT32:
        found = "none" if case.weight_dtype is None else case.weight_dtype.value
        return f"quack's layernorm_fwd takes weight and bias in float32 only, and here is {found}"
    if case.pass_ is not Pass.FORWARD and case.dtype is DType.FLOAT32 and case.cols > MOST_COLUMNS_OF_A_FLOAT32_BACKWARD:
        return f"quack's backward takes at most {MOST_COLUMNS_OF_A_FLOAT32_BACKWARD} columns of float32, and here are {case.cols}"
    return None


def quack_definition(case: Case) -> Definition:
    """Return which formula is computed: RMSNorm with a residual of 16 bits is that of the sum that was not rounded yet."""
    is_fused = case.norm is Norm.RMS_NORM and case.residual
    return Definition.UNROUNDED_SUM if is_fused and case.dtype.itemsize == 2 else Definition.FORMULA


@provider("quack", norms=["layer_norm", "rms_norm"], per_case=True, supports=quack_unsupported, definition=quack_definition)
def quack(case: Case) -> NormFunction:
    """Compute the case with quack's kernel of its norm, compiled for its dtypes and columns when it is first called."""
    # Imported here and not where providers are loaded: it asks for the device, and that process will be forked.
    kernels = importlib.import_module("quack.rmsnorm")
    if case.norm is Norm.LAYER_NORM:
        return _layer_norm_function(kernels)
    return _rms_norm_function(kernels, 1.0 if case.convention is Convention.GEMMA else 0.0)


def _dense(vector: Tensor | None) -> Tensor | None:
    """Return a weight or bias without gaps, which quack, other than for x, does not see to."""
    return None if vector is None else vector.contiguous()


def _rms_norm_function(kernels: Any, offset: float) -> NormFunction:
    rms_norm = kernels.rmsnorm

    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        weight_offset = 0.0 if weight is None else offset
        weight, bias = _dense(weight), _dense(bias)
        if residual is None:
            y: Tensor = rms_norm(x, weight, bias=bias, eps=eps, weight_offset=weight_offset)
            return y
        y, hidden = rms_norm(x, weight, bias=bias, residual=residual, eps=eps, prenorm=True, weight_offset=weight_offset)
        return y, hidden

    return function


def _layer_norm_function(kernels: Any) -> NormFunction:
    class LayerNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
            x = x.contiguous()
            y, rstd, mean = kernels.layernorm_fwd(x, weight, bias, eps, return_rstd=True, return_mean=True)
            ctx.save_for_backward(x, weight, rstd, mean)
            ctx.has_bias = bias is not None
            out: Tensor = y
            return out

        @staticmethod
        def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
            x, weight, rstd, mean = ctx.saved_tensors
            dx, dweight, dbias = kernels.layernorm_bwd(x, weight, dy.contiguous(), rstd, mean, has_bias=ctx.has_bias)
            return dx, dweight, dbias, None

    def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
        return kernels.layernorm_fwd(x.contiguous(), weight, bias, eps)

    apply: Any = LayerNorm.apply

    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        hidden = x if residual is None else x + residual
        flat = hidden.reshape(-1, hidden.shape[-1])
        # Without a backward to come no statistics are written.
        compute = apply if torch.is_grad_enabled() else forward
        y = compute(flat, _dense(weight), _dense(bias), eps).reshape(hidden.shape)
        return y if residual is None else (y, hidden)

    return function
