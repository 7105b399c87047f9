"""The kernels as PyTorch operators: differentiable, and opaque to torch.compile, which runs them as they are.

The operators live in a namespace named after this module, so that two copies of the package can share a process.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from ..errors import NormbenchError
from .calls import Forward, run_backward, run_forward
from .rows import working_dtype

__all__ = ["backward_operator", "forward_operator", "norm"]

_NAMESPACE = __name__.replace(".", "_")


def norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, *, name: str, convention: str = "torch"
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute `name` (layer_norm or rms_norm) of x, or of x + residual, over the last dimension; see `calls.run_forward`.

    Returns y, or (y, x + residual rounded once), contiguous. Differentiable once; a second derivative raises NormbenchError. The
    dtype of y is that of x, under autocast too.
    """
    y: Tensor
    residual_out: Tensor | None
    # A meta tensor has no memory that a kernel could read; the operator knows what comes of it.
    if torch.compiler.is_compiling() or type(x) not in (Tensor, Parameter) or x.is_meta:
        y, residual_out, _, _ = forward_operator(x, weight, bias, residual, eps, name, convention)
    elif _is_differentiated(x, weight, bias, residual):
        # Not the operator: its dispatch costs 55 us forward and 133 with its backward on a 2-core CPU, this 18 and 45.
        y, residual_out = _Norm.apply(x, weight, bias, residual, eps, name, convention)  # type: ignore[no-untyped-call]
    else:
        forward = run_forward(x, weight, bias, residual, eps, norm=name, convention=convention, saves_statistics=False)
        y, residual_out = forward.y, forward.residual_out
    if residual is None:
        return y
    assert residual_out is not None
    return y, residual_out


def _is_differentiated(*inputs: Tensor | None) -> bool:
    # In forward mode a tensor carries its derivative along without asking for gradients; the function refuses it, a kernel drops it.
    is_forward_mode = forward_ad._current_level >= 0
    return is_forward_mode or (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs))


def _refuse_second_derivative() -> Any:
    raise NormbenchError("the Triton kernels have no second derivative: use another provider, such as eager, where one is needed")


class _Gradients(torch.autograd.Function):
    """The backward as a function of its own, so that only whoever differentiates it is refused."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
        return _backward(*arguments)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _refuse_second_derivative()


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, name: str, convention: str
    ) -> tuple[Tensor, Tensor | None]:
        done = run_forward(x, weight, bias, residual, eps, norm=name, convention=convention, saves_statistics=True)
        _save(ctx, x, weight, bias, done, name, convention)
        return done.y, done.residual_out

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dresidual_out: Tensor | None) -> tuple[Tensor | None, ...]:
        return _input_gradients(ctx, dy, dresidual_out, _Gradients.apply if torch.is_grad_enabled() else _backward)


def _save(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, done: Forward, name: str, convention: str) -> None:
    """Keep what the backward needs; the sum, not x and the residual, where there is one."""
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x if done.residual_out is None else done.residual_out, weight, done.mean, done.rstd)
    ctx.name, ctx.convention, ctx.has_residual = name, convention, done.residual_out is not None
    ctx.weight_dtype = None if weight is None else weight.dtype
    ctx.bias_dtype = None if bias is None else bias.dtype


def _backward(
    dy: Tensor | None,
    dresidual_out: Tensor | None,
    hidden: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    name: str,
    convention: str,
    dweight_dtype: torch.dtype | None,
    dbias_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute dx, dweight and dbias; the last two are None where no dtype asks for them."""
    if dy is None:
        # Only the sum was used downstream: y contributes nothing, not even where rstd is not finite.
        dx = hidden.new_zeros(hidden.shape) if dresidual_out is None else dresidual_out.clone(memory_format=torch.contiguous_format)
        sums = [None if dtype is None else hidden.new_zeros(hidden.shape[-1], dtype=dtype) for dtype in (dweight_dtype, dbias_dtype)]
        return dx, sums[0], sums[1]
    done = run_backward(
        dy,
        dresidual_out,
        hidden,
        weight,
        mean,
        rstd,
        norm=name,
        convention=convention,
        dweight_dtype=dweight_dtype,
        dbias_dtype=dbias_dtype,
    )
    return done.dx, done.dweight, done.dbias


def _input_gradients(
    ctx: Any, dy: Tensor | None, dresidual_out: Tensor | None, differentiate: Callable[..., tuple[Tensor | None, ...]]
) -> tuple[Tensor | None, ...]:
    """Return a gradient for each argument of the forward, by `differentiate`, from what `_save` kept."""
    hidden, weight, mean, rstd = ctx.saved_tensors
    needs_x, needs_weight, needs_bias, needs_residual = ctx.needs_input_grad[:4]
    dtypes = (ctx.weight_dtype if needs_weight else None, ctx.bias_dtype if needs_bias else None)
    # The operator's empty stand-in for an absent sum may come back with an empty gradient.
    dresidual_out = dresidual_out if ctx.has_residual else None
    dx, dweight, dbias = differentiate(dy, dresidual_out, hidden, weight, mean, rstd, ctx.name, ctx.convention, *dtypes)
    return (
        dx if needs_x else None,
        dweight if needs_weight else None,
        dbias if needs_bias else None,
        dx if needs_residual else None,
        None,
        None,
        None,
    )


def _present(tensor: Tensor | None, like: Tensor) -> Tensor:
    """Return the tensor, or an empty one in its place: an operator cannot return None."""
    return like.new_empty(0) if tensor is None else tensor


@torch.library.custom_op(f"{_NAMESPACE}::forward", mutates_args=())
def forward_operator(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, name: str, convention: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute y, residual_out, mean and rstd; the second and the third are empty where the norm has none."""
    done = run_forward(x, weight, bias, residual, eps, norm=name, convention=convention, saves_statistics=True)
    assert done.rstd is not None
    return done.y, _present(done.residual_out, x), _present(done.mean, done.rstd), done.rstd


@forward_operator.register_fake
def _(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float, name: str, convention: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    # Not `Size.numel`, which makes a number of a size that a graph keeps open: each batch would have a graph of its own.
    rstd = x.new_empty(prod(x.shape[:-1]), dtype=working_dtype(x.dtype)[0])
    y = x.new_empty(x.shape)
    return (
        y,
        x.new_empty(0) if residual is None else torch.empty_like(y),
        torch.empty_like(rstd) if name == "layer_norm" else rstd.new_empty(0),
        rstd,
    )


@torch.library.custom_op(f"{_NAMESPACE}::backward", mutates_args=())
def backward_operator(
    dy: Tensor | None,
    dresidual_out: Tensor | None,
    hidden: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    name: str,
    convention: str,
    dweight_dtype: torch.dtype | None,
    dbias_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dx, dweight and dbias; the last two are empty where no dtype asks for them."""
    mean_or_none = mean if name == "layer_norm" else None
    arguments = (dy, dresidual_out, hidden, weight, mean_or_none, rstd, name, convention, dweight_dtype, dbias_dtype)
    dx, dweight, dbias = _backward(*arguments)
    return dx, _present(dweight, hidden), _present(dbias, hidden)


@backward_operator.register_fake
def _(
    dy: Tensor | None,
    dresidual_out: Tensor | None,
    hidden: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    name: str,
    convention: str,
    dweight_dtype: torch.dtype | None,
    dbias_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    cols = hidden.shape[-1]
    sums = [hidden.new_empty(0) if dtype is None else hidden.new_empty(cols, dtype=dtype) for dtype in (dweight_dtype, dbias_dtype)]
    return hidden.new_empty(hidden.shape), sums[0], sums[1]


def _set_up_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, residual, _, name, convention = inputs
    y, residual_out, mean, rstd = output
    done = Forward(y=y, residual_out=None if residual is None else residual_out, mean=mean, rstd=rstd)
    _save(ctx, x, weight, bias, done, name, convention)


def _differentiate(ctx: Any, dy: Tensor | None, dresidual_out: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    return _input_gradients(ctx, dy, dresidual_out, backward_operator)


forward_operator.register_autograd(_differentiate, setup_context=_set_up_context)
backward_operator.register_autograd(lambda ctx, *gradients: _refuse_second_derivative())
