"""The tensors of a case and a kernel's call on them with a launch of the tuner's choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cases.case import Case, Norm, Pass
from ..kernels.calls import Backward, Forward, run_backward, run_forward
from ..kernels.rows import multiprocessors, working_dtype
from ..oracle.problem import torch_dtype
from .candidates import Candidate

__all__ = ["KERNELS", "Operands", "make_call", "outputs_of"]

KERNELS = frozenset({"norm_forward", "norm_forward_looped", "norm_backward"})
"""What the tuner launches differently; the row means and the sums of partial sums keep their launches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Hold the inputs of a case, (rows, cols) and (cols,), and the statistics (rows,) that a backward reads."""

    case: Case
    x: Tensor
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None
    dy: Tensor
    dresidual_out: Tensor | None
    mean: Tensor | None
    rstd: Tensor

    @classmethod
    def unfilled(cls, case: Case) -> Operands:
        """Return tensors in the host's memory that nobody reads: launches are only seen."""

        return cls._made(case, lambda dtype, *shape: torch.empty(shape, dtype=dtype))

    @classmethod
    def drawn(cls, case: Case, device: torch.device, seed: int) -> Operands:
        """Return tensors of normal values on a device."""
        generator = torch.Generator(device).manual_seed(seed)

        return cls._made(case, lambda dtype, *shape: torch.randn(shape, device=device, generator=generator).to(dtype))

    @classmethod
    def _made(cls, case: Case, tensor: Callable[..., Tensor]) -> Operands:
        assert case.weight_dtype is not None, case.id
        dtype, weight_dtype = torch_dtype(case.dtype), torch_dtype(case.weight_dtype)
        rstd = tensor(working_dtype(dtype)[0], case.rows)
        return cls(
            case=case,
            x=tensor(dtype, *case.shape),
            weight=tensor(weight_dtype, case.cols),
            bias=tensor(weight_dtype, case.cols) if case.bias else None,
            residual=tensor(dtype, *case.shape) if case.residual else None,
            dy=tensor(dtype, *case.shape),
            dresidual_out=tensor(dtype, *case.shape) if case.residual else None,
            mean=tensor(rstd.dtype, case.rows) if case.norm is Norm.LAYER_NORM else None,
            rstd=rstd,
        )


def make_call(operands: Operands, candidate: Candidate) -> Callable[[], Forward | Backward]:
    """Return a function of no arguments that runs the kernels of a candidate's direction with its launch."""
    case = operands.case
    if candidate.direction is Pass.FORWARD:
        forward = candidate.forward_launch(case.cols)

        def run_forwards() -> Forward:
            return run_forward(
                operands.x,
                operands.weight,
                operands.bias,
                operands.residual,
                case.eps,
                norm=case.norm.value,
                convention=case.convention.value,
                saves_statistics=False,
                launch=forward,
            )

        return run_forwards
    backward = candidate.backward_launch(case.rows, case.cols, multiprocessors(operands.x.device))
    bias_dtype = None if operands.bias is None else operands.bias.dtype

    def run_backwards() -> Backward:
        return run_backward(
            operands.dy,
            operands.dresidual_out,
            operands.x,
            operands.weight,
            operands.mean,
            operands.rstd,
            norm=case.norm.value,
            convention=case.convention.value,
            dweight_dtype=operands.weight.dtype,
            dbias_dtype=bias_dtype,
            launch=backward,
        )

    return run_backwards


def outputs_of(done: Forward | Backward) -> dict[str, Tensor]:
    """Return what a call yields, by name."""
    if isinstance(done, Forward):
        named = {"y": done.y, "residual_out": done.residual_out}
    else:
        named = {"dx": done.dx, "dweight": done.dweight, "dbias": done.dbias}
    return {name: tensor for name, tensor in named.items() if tensor is not None}
