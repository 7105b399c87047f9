"""The kernels called on tensors: outputs allocated, launches chosen, one function for each direction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .backward import norm_backward, norm_backward_projections, sum_partials
from .forward import norm_forward, norm_forward_looped
from .launch import LOOP_COLS, MAX_WARPS, BackwardLaunch, ForwardLaunch, backward_launch, forward_launch, sum_launch
from .rows import Rows, alignment, multiprocessors, working_dtype

__all__ = ["Backward", "Forward", "run_backward", "run_forward"]

_OPTIONS = {"enable_fp_fusion": True}
"""Said although it is the default: from Triton 3.10 on it is not to be, and 3.9 warns of that. A fused a * b + c rounds once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Hold what a forward yields: y and residual_out of the shape of x, contiguous; mean and rstd (rows,), in the working dtype."""

    y: Tensor
    residual_out: Tensor | None
    mean: Tensor | None
    rstd: Tensor | None


def run_forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    eps: float,
    *,
    norm: str,
    convention: str,
    saves_statistics: bool,
    launch: ForwardLaunch | None = None,
) -> Forward:
    """Compute a norm over the last dimension, float32 inside (float64 for float64), rounded as `convention` says (see `case`).

    x and residual (..., cols) of one dtype, weight and bias (cols,). residual_out is x + residual rounded once, which the norm reads.
    mean (layer_norm only) and rstd are there when `saves_statistics`, for the backward. Nothing is launched for an empty x. `launch`
    is for the tuner: without one the launch is chosen.
    """
    rows, added = Rows.of(x), None if residual is None else Rows.of(residual)
    working, working_type = working_dtype(x.dtype)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    residual_out = None if residual is None else torch.empty_like(y)
    is_centred = norm == "layer_norm"
    rstd = torch.empty(rows.count, dtype=working, device=x.device) if saves_statistics else None
    mean = torch.empty_like(rstd) if rstd is not None and is_centred else None
    if y.numel():
        launch = launch or forward_launch(rows.cols, x.element_size())
        align = alignment(rows.cols, rows.stride, 0 if added is None else added.stride)
        kernel = norm_forward_looped if launch.is_looped else norm_forward
        with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
            kernel[(launch.programs(rows.count),)](
                rows.tensor,
                None if added is None else added.tensor,
                None if weight is None else weight.contiguous(),
                None if bias is None else bias.contiguous(),
                y,
                residual_out,
                mean,
                rstd,
                rows.count,
                rows.cols // align,
                rows.stride // align,
                0 if added is None else added.stride // align,
                EPS=eps,
                CENTRED=is_centred,
                CONVENTION=convention,
                WORKING=working_type,
                ALIGN=align,
                BLOCK_M=launch.block_rows,
                BLOCK_N=launch.block_cols,
                num_warps=launch.num_warps,
                maxnreg=launch.max_registers,
                **_OPTIONS,
            )
    return Forward(y=y, residual_out=residual_out, mean=mean, rstd=rstd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward:
    """Hold the gradients: dx of the shape of x, contiguous, which is dresidual too; dweight and dbias (cols,) where wanted."""

    dx: Tensor
    dweight: Tensor | None
    dbias: Tensor | None


def run_backward(
    dy: Tensor,
    dresidual_out: Tensor | None,
    hidden: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    *,
    norm: str,
    convention: str,
    dweight_dtype: torch.dtype | None,
    dbias_dtype: torch.dtype | None,
    launch: BackwardLaunch | None = None,
) -> Backward:
    """Compute the gradients of a norm from what its forward saved; a dtype of None says that the gradient is not wanted.

    dy, dresidual_out and hidden (..., cols): hidden is what was normalised, x or residual_out. mean (None for rms_norm) and rstd (rows,)
    as `run_forward` returns them. Nothing is launched for empty input, whose sums are 0. `launch` is as for `run_forward`.
    """
    cols = hidden.shape[-1]
    dx = torch.empty(hidden.shape, dtype=hidden.dtype, device=hidden.device)
    # Empty input launches nothing, and its sums are 0.
    allocate = torch.empty if dx.numel() else torch.zeros
    sums = [None if dtype is None else allocate(cols, dtype=dtype, device=hidden.device) for dtype in (dweight_dtype, dbias_dtype)]
    if dx.numel():
        with torch.cuda.device_of(dx):  # type: ignore[no-untyped-call]
            _launch(dy, dresidual_out, hidden, weight, mean, rstd, dx, sums, launch, is_centred=norm == "layer_norm", convention=convention)
    return Backward(dx=dx, dweight=sums[0], dbias=sums[1])


def _launch(
    dy: Tensor,
    dresidual_out: Tensor | None,
    hidden: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    dx: Tensor,
    sums: list[Tensor | None],
    launch: BackwardLaunch | None,
    *,
    is_centred: bool,
    convention: str,
) -> None:
    """Fill dx and those of `sums` (dweight, dbias) that are there."""
    upstream, rows, added = Rows.of(dy), Rows.of(hidden), None if dresidual_out is None else Rows.of(dresidual_out)
    working, working_type = working_dtype(hidden.dtype)
    launch = launch or backward_launch(rows.count, rows.cols, hidden.element_size(), multiprocessors(hidden.device))
    align = alignment(rows.cols, upstream.stride, rows.stride, 0 if added is None else added.stride)
    weight = None if weight is None else weight.contiguous()
    sizes = (rows.count, rows.cols // align, upstream.stride // align, rows.stride // align)
    options = {"CENTRED": is_centred, "CONVENTION": convention, "WORKING": working_type, "ALIGN": align, **_OPTIONS}
    c1 = c2 = None
    if not launch.holds_whole_rows:
        c2 = torch.empty_like(rstd)
        c1 = torch.empty_like(rstd) if is_centred else None
        norm_backward_projections[(rows.count,)](
            upstream.tensor, rows.tensor, weight, mean, rstd, c1, c2, *sizes, BLOCK_N=LOOP_COLS, num_warps=MAX_WARPS, **options
        )
    partials = [None if total is None else torch.empty((launch.groups, rows.cols), dtype=working, device=dx.device) for total in sums]
    norm_backward[(launch.column_blocks, launch.groups)](
        upstream.tensor,
        rows.tensor,
        weight,
        mean,
        rstd,
        c1,
        c2,
        None if added is None else added.tensor,
        dx,
        *partials,
        *sizes,
        0 if added is None else added.stride // align,
        BLOCK_M=launch.block_rows,
        BLOCK_N=launch.block_cols,
        num_warps=launch.num_warps,
        maxnreg=launch.max_registers,
        **options,
    )
    adding = sum_launch(rows.cols)
    for partial, total in zip(partials, sums, strict=True):
        if total is not None:
            sum_partials[(adding.programs,)](
                partial,
                total,
                launch.groups,
                rows.cols,
                WORKING=working_type,
                BLOCK_M=adding.block_rows,
                BLOCK_N=adding.block_cols,
                num_warps=adding.num_warps,
                **_OPTIONS,
            )
