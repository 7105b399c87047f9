"""A norm of any tensor by any provider, with PyTorch's arguments: what `normbench.apply` and the modules of `normbench.nn` run."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch

from .cases.case import Case, DType, Norm, Pass
from .errors import UsageError
from .oracle.problem import dtype_of
from .registry import NormFunction, Registry

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["apply", "default_eps"]

_PREPARED = 1024
"""Functions kept, one for each provider and kind of input; a provider that compiles for a shape compiles it once."""


@overload
def apply(
    norm: str,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual: None = None,
    *,
    normalized_shape: int | Sequence[int] | None = None,
    eps: float | None = None,
    convention: str = "torch",
    provider: str | None = None,
) -> Tensor: ...
@overload
def apply(
    norm: str,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    residual: Tensor,
    normalized_shape: int | Sequence[int] | None = None,
    eps: float | None = None,
    convention: str = "torch",
    provider: str | None = None,
) -> tuple[Tensor, Tensor]: ...
def apply(
    norm: str,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    normalized_shape: int | Sequence[int] | None = None,
    eps: float | None = None,
    convention: str = "torch",
    provider: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute "layer_norm" or "rms_norm" of x by a provider, differentiably; with a residual return (y, x + residual) and norm the sum.

    The norm runs over the last dimensions, those of `normalized_shape`: by default those of the weight, else the last one. weight and
    bias have that shape, y and the sum the shape and dtype of x (float64, float32, bfloat16 or float16). `eps` is by default 1e-5 for
    layer_norm and the machine epsilon of the computation for rms_norm (2**-23 for 16-bit input too), as in PyTorch. `convention` says
    where rms_norm rounds (see `Case`). `provider` is a name or the path of a file; by default triton on a GPU and aten elsewhere.
    Raises UsageError for arguments that do not fit each other or the provider.
    """
    given = normalized_shape if normalized_shape is None or isinstance(normalized_shape, int | tuple) else tuple(normalized_shape)
    if torch.compiler.is_compiling():
        shape = _fitting_shape(given, x, weight, bias, residual)
        kind = _kind(norm, provider, convention, eps, shape, torch.is_grad_enabled(), x, weight, bias, residual)
        # A traced graph serves every batch, so none is looked at while tracing.
        function, eps = getattr(_Prepared, _prepare_for_tracer(*kind, (1,))), kind[-1]
    else:
        function, shape, eps = _plan(
            norm, provider, convention, eps, given, torch.is_grad_enabled(), _look(x), _look(weight), _look(bias), _look(residual)
        )
    if len(shape) == 1:
        return function(x, weight, bias, residual, eps)  # type: ignore[no-any-return]
    rows = (*x.shape[: x.ndim - len(shape)], prod(shape))
    result = function(
        x.reshape(rows),
        None if weight is None else weight.reshape(-1),
        None if bias is None else bias.reshape(-1),
        None if residual is None else residual.reshape(rows),
        eps,
    )
    return result.reshape(x.shape) if residual is None else (result[0].reshape(x.shape), result[1].reshape(x.shape))


class _Facts(NamedTuple):
    """Hold what is looked at of a tensor: what a provider's function for it is chosen by."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool


_Look = tuple[torch.Size, torch.dtype, torch.device, bool]
_Seen = _Facts | torch.Tensor


def _look(tensor: Tensor | None) -> _Look | None:
    # A plain tuple: a norm of a token is short, and so must be the way to it.
    return None if tensor is None else (tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad)


@lru_cache(maxsize=_PREPARED)
def _plan(
    norm: str,
    provider: str | None,
    convention: str,
    eps: float | None,
    given: int | tuple[int, ...] | None,
    is_grad_enabled: bool,
    x: _Look,
    weight: _Look | None,
    bias: _Look | None,
    residual: _Look | None,
) -> tuple[NormFunction, tuple[int, ...], float]:
    """Return the function that computes a norm of such tensors, the shape that it runs over, and its eps; see `apply`."""
    row = _Facts(*x)
    others = [None if one is None else _Facts(*one) for one in (weight, bias, residual)]
    shape = _fitting_shape(given, row, *others)
    kind = _kind(norm, provider, convention, eps, shape, is_grad_enabled, row, *others)
    return _prepare(*kind, tuple(row.shape[: len(row.shape) - len(shape)])), shape, kind[-1]


def _kind(
    norm: str,
    provider: str | None,
    convention: str,
    eps: float | None,
    shape: tuple[int, ...],
    is_grad_enabled: bool,
    x: _Seen,
    weight: _Seen | None,
    bias: _Seen | None,
    residual: _Seen | None,
) -> tuple[Any, ...]:
    """Return what `_prepare` asks for, the leading sizes of x apart; eps is the last."""
    return (
        provider or ("triton" if x.device.type == "cuda" else "aten"),
        norm,
        # A graph may keep the width open too; `operator.index` has it made for one width, since providers choose by it.
        operator.index(prod(shape)),
        x.dtype,
        None if weight is None else weight.dtype,
        bias is not None,
        residual is not None,
        convention,
        is_grad_enabled and any(one is not None and one.requires_grad for one in (x, weight, bias, residual)),
        x.device.type,
        default_eps(norm, x.dtype) if eps is None else float(eps),
    )


def default_eps(norm: str, dtype: torch.dtype) -> float:
    """Return PyTorch's eps; that of nn.RMSNorm follows the dtype that is computed in, not the dtype of x."""
    if norm == Norm.LAYER_NORM.value:
        return Norm.LAYER_NORM.default_eps
    return torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps


def _fitting_shape(
    given: int | Sequence[int] | None, x: _Seen, weight: _Seen | None, bias: _Seen | None, residual: _Seen | None
) -> tuple[int, ...]:
    """Return the shape that a norm runs over. Raises UsageError where shapes, dtypes or devices do not fit each other.

    A kernel would read past the end of what is too small.
    """
    if given is None:
        shape = tuple(weight.shape) if weight is not None else tuple(x.shape[-1:])
    else:
        shape = (given,) if isinstance(given, int) else tuple(given)
    if not shape:
        raise UsageError("normalized_shape is empty: a norm runs over at least one dimension")
    if tuple(x.shape[-len(shape) :]) != shape:
        raise UsageError(f"x of shape {tuple(x.shape)} does not end in normalized_shape {shape}")
    for name, tensor, wanted in (("weight", weight, shape), ("bias", bias, shape), ("residual", residual, tuple(x.shape))):
        if tensor is None:
            continue
        if tuple(tensor.shape) != wanted:
            raise UsageError(f"{name} has shape {tuple(tensor.shape)}; it must be {wanted}")
        if tensor.device != x.device:
            raise UsageError(f"{name} is on {tensor.device} and x on {x.device}: move one to the other")
    if residual is not None and residual.dtype != x.dtype:
        raise UsageError(f"residual is {residual.dtype} and x {x.dtype}: a residual is added to x in one dtype")
    if weight is not None and bias is not None and weight.dtype != bias.dtype:
        raise UsageError(f"bias is {bias.dtype} and weight {weight.dtype}: both must have one dtype")
    return shape


def _dtype(dtype: torch.dtype, what: str) -> DType:
    found = dtype_of(dtype)
    if found is None:
        raise UsageError(f"{what} is {dtype}; a norm takes {', '.join(member.value for member in DType)}")
    return found


@lru_cache(maxsize=1)
def _registry() -> Registry:
    return Registry()


@lru_cache(maxsize=_PREPARED)
def _prepare(
    provider: str,
    norm: str,
    cols: int,
    dtype: torch.dtype,
    weight_dtype: torch.dtype | None,
    has_bias: bool,
    has_residual: bool,
    convention: str,
    needs_gradients: bool,
    device_type: str,
    eps: float,
    lead: tuple[int, ...],
) -> NormFunction:
    """Return a provider's function for one kind of input. Raises UsageError with the provider's reason where it does not take it."""
    case = Case.make(
        norm,
        Pass.FORWARD_BACKWARD if needs_gradients else Pass.FORWARD,
        (*lead, cols),
        _dtype(dtype, "x"),
        residual=has_residual,
        weight=weight_dtype is not None,
        weight_dtype=None if weight_dtype is None else _dtype(weight_dtype, "weight"),
        bias=has_bias,
        eps=eps,
        convention=convention,
    )
    found = _registry().resolve(provider)
    if reason := found.unsupported(case, device_type):
        raise UsageError(f"provider {provider!r} does not take {case.id} on {device_type}: {reason}")
    if found.is_interpreted(case, device_type) and not os.environ.get("TRITON_INTERPRET"):
        raise UsageError(
            f"provider {provider!r} needs a GPU, and x is on {device_type}: name another provider, such as aten, or set TRITON_INTERPRET=1 "
            "before Python starts to have Triton interpret its kernels, slowly"
        )
    function = found.prepare(case)
    mutated = [index for index, name in enumerate(("x", "weight", "bias", "residual")) if name in found.mutates(case)]
    return _sparing(function, mutated) if mutated else function


class _Prepared:
    """What `_prepare` returned, one attribute each, where a tracer finds it as it finds any function of a class."""


def _prepare_for_tracer(*kind: Any) -> str:
    """Return the attribute of `_Prepared` that serves one kind of input: a word, which a tracer takes as a constant.

    It runs this as it is; it would look through `_prepare` and its cache and fail on what lies behind.
    """
    function = _prepare(*kind)
    name = f"function_{id(function)}"
    setattr(_Prepared, name, staticmethod(function))
    return name


torch.compiler.assume_constant_result(_prepare_for_tracer)  # type: ignore[no-untyped-call]


def _sparing(function: NormFunction, mutated: Sequence[int]) -> NormFunction:
    """Return the function with copies in place of the inputs that it overwrites."""

    def spared(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float) -> object:
        inputs = [x, weight, bias, residual]
        for index in mutated:
            inputs[index] = None if (tensor := inputs[index]) is None else tensor.clone()
        return function(*inputs, eps)

    return spared
