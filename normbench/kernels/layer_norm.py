"""LayerNorm forward in Triton, optionally with the residual added first. M is rows, N is cols."""

# A kernel is Triton, not Python: its parameters have no types that mypy knows.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launch import forward_launch
from .parts import load_hidden, scale_and_shift
from .rows import as_rows

__all__ = ["forward_looped", "forward_one_pass", "layer_norm"]


@triton.jit
def forward_one_pass(
    x_ptr,  # (M, N), row stride x_stride
    residual_ptr,  # (M, N), row stride residual_stride, or None
    weight_ptr,  # (N,) or None
    bias_ptr,  # (N,) or None
    y_ptr,  # (M, N), contiguous
    residual_out_ptr,  # (M, N), contiguous; None without a residual
    mean_ptr,  # (M,) float32 or None
    rstd_ptr,  # (M,) float32 or None
    M,
    N,
    x_stride,
    residual_stride,
    eps,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Normalise BLOCK_M rows of at most BLOCK_N columns, read once and kept on chip."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    mask = (row < M)[:, None] & (col < N)[None, :]
    stored = load_hidden(x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride)
    out = row[:, None] * N + col[None, :]
    if residual_ptr is not None:
        tl.store(residual_out_ptr + out, stored, mask=mask)
    hidden = stored.to(tl.float32)
    mean = tl.sum(hidden, axis=1) / N
    # Lanes past the row's end hold 0, not the mean: unmasked, each would add mean^2 to the variance.
    centred = tl.where(mask, hidden - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=1) / N + eps)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean, mask=row < M)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd, mask=row < M)
    y = scale_and_shift(centred * rstd[:, None], weight_ptr, bias_ptr, col, N, y_ptr.dtype.element_ty, "torch")
    tl.store(y_ptr + out, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def forward_looped(
    x_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    residual_out_ptr,
    mean_ptr,
    rstd_ptr,
    M,
    N,
    x_stride,
    residual_stride,
    eps,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Normalise BLOCK_M rows of any width in steps of BLOCK_N columns; the second read of x comes from L2 where it fits.

    Each step centres its own values on chip, and the steps are combined as Chan, Golub and LeVeque (1979, eq. 2.1) do: nothing is
    lost for a large mean.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    mean = tl.zeros([BLOCK_M], dtype=tl.float32)
    squares = tl.zeros([BLOCK_M], dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        mask = (row < M)[:, None] & (col < N)[None, :]
        stored = load_hidden(x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride)
        if residual_ptr is not None:
            tl.store(residual_out_ptr + row[:, None] * N + col[None, :], stored, mask=mask)
        hidden = stored.to(tl.float32)
        count = tl.minimum(N - start, BLOCK_N).to(tl.float32)
        share = count / (start + count)
        step_mean = tl.sum(hidden, axis=1) / count
        centred = tl.where(mask, hidden - step_mean[:, None], 0.0)
        delta = step_mean - mean
        mean += delta * share
        squares += tl.sum(centred * centred, axis=1) + delta * delta * (start * share)
    rstd = tl.rsqrt(squares / N + eps)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean, mask=row < M)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd, mask=row < M)
    for start in range(0, N, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        mask = (row < M)[:, None] & (col < N)[None, :]
        hidden = load_hidden(x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride).to(tl.float32)
        xhat = (hidden - mean[:, None]) * rstd[:, None]
        y = scale_and_shift(xhat, weight_ptr, bias_ptr, col, N, y_ptr.dtype.element_ty, "torch")
        tl.store(y_ptr + row[:, None] * N + col[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    residual: Tensor | None,
    eps: float,
    *,
    mean: Tensor | None = None,
    rstd: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute LayerNorm (arXiv:1607.06450, eq. 4) over the last dimension, float32 inside, rounded once.

    x and residual (..., cols) in float32, bfloat16 or float16; weight and bias (cols,), contiguous. Returns y, or (y, x + residual
    rounded once), contiguous. `mean` and `rstd`, float32 of one element per row, are filled when given.
    """
    rows, added = as_rows(x), None if residual is None else as_rows(residual)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    residual_out = None if residual is None else torch.empty_like(y)
    if x.numel():
        launch = forward_launch(x.shape[-1])
        kernel = forward_looped if launch.is_looped else forward_one_pass
        with torch.cuda.device_of(x):
            kernel[(launch.programs(len(rows)),)](
                rows,
                added,
                weight,
                bias,
                y,
                residual_out,
                mean,
                rstd,
                len(rows),
                x.shape[-1],
                rows.stride(0),
                0 if added is None else added.stride(0),
                eps,
                BLOCK_M=launch.block_rows,
                BLOCK_N=launch.block_cols,
                num_warps=launch.num_warps,
            )
    return y if residual_out is None else (y, residual_out)
