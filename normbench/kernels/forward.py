"""The forward kernels of both norms, optionally with the residual added first.

M is rows, N is cols. CENTRED tells LayerNorm (arXiv:1607.06450, eq. 4) from RMSNorm (arXiv:1910.07467, eq. 4), which is the same with a
mean of 0. Sizes and strides come in units of ALIGN elements, so that Triton knows what they divide by and reads 128 bits at a time
without a variant for every width; none of them, nor M, makes a new variant.
"""

# A kernel is Triton, not Python: its parameters have no types that mypy knows.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from .parts import centre, load_hidden, scale_and_shift

__all__ = ["norm_forward", "norm_forward_looped"]

_SIZES = ["M", "units", "x_stride", "residual_stride"]


@triton.jit(do_not_specialize=_SIZES)
def norm_forward(
    x_ptr,  # (M, N), rows x_stride apart
    residual_ptr,  # (M, N), rows residual_stride apart, or None
    weight_ptr,  # (N,) or None
    bias_ptr,  # (N,) or None
    y_ptr,  # (M, N), contiguous
    residual_out_ptr,  # (M, N), contiguous; None without a residual
    mean_ptr,  # (M,) or None
    rstd_ptr,  # (M,) or None
    M,
    units,  # N in units of ALIGN, as the strides are
    x_stride,
    residual_stride,
    EPS: tl.constexpr,
    CENTRED: tl.constexpr,
    CONVENTION: tl.constexpr,
    WORKING: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Normalise BLOCK_M rows of at most BLOCK_N columns, read once and kept on chip."""
    N = units * ALIGN
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    mask = (row < M)[:, None] & (col < N)[None, :]
    stored = load_hidden(x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride, ALIGN, WORKING, "evict_first")
    out = row[:, None] * N + col[None, :]
    if residual_ptr is not None:
        # Not `out`, which y's store would share: its 64-bit values would stay in registers across the sums (docs/kernels.md, "Offsets").
        tl.store(residual_out_ptr + row[:, None] * N + col[None, :], stored, mask=mask)
    hidden = stored.to(WORKING)
    mean = tl.sum(hidden, axis=1) / N.to(WORKING)
    hidden = centre(hidden, mean, mask, CENTRED)
    rstd = tl.rsqrt(tl.sum(hidden * hidden, axis=1) / N.to(WORKING) + EPS)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean, mask=row < M)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd, mask=row < M)
    y = scale_and_shift(hidden * rstd[:, None], weight_ptr, bias_ptr, col, N, y_ptr.dtype.element_ty, WORKING, CONVENTION)
    tl.store(y_ptr + out, y, mask=mask)


@triton.jit(do_not_specialize=_SIZES)
def norm_forward_looped(
    x_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    residual_out_ptr,
    mean_ptr,
    rstd_ptr,
    M,
    units,
    x_stride,
    residual_stride,
    EPS: tl.constexpr,
    CENTRED: tl.constexpr,
    CONVENTION: tl.constexpr,
    WORKING: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Normalise BLOCK_M rows of any width in steps of BLOCK_N columns; the second read comes from the second-level cache where it fits.

    Each lane keeps the running mean and squares of its own columns (Welford, 1962), and the lanes are combined once, as Chan, Golub and
    LeVeque (1979, eq. 2.1) do: nothing is lost for a large mean, and no step waits for another thread.
    """
    N = units * ALIGN
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    lane = tl.arange(0, BLOCK_N)
    means = tl.zeros([BLOCK_M, BLOCK_N], dtype=WORKING)
    squares = tl.zeros([BLOCK_M, BLOCK_N], dtype=WORKING)
    for start in range(0, N, BLOCK_N):
        col = start + lane
        mask = (row < M)[:, None] & (col < N)[None, :]
        stored = load_hidden(x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride, ALIGN, WORKING, "evict_last")
        if residual_ptr is not None:
            tl.store(residual_out_ptr + row[:, None] * N + col[None, :], stored, mask=mask)
        hidden = stored.to(WORKING)
        if CENTRED:
            delta = tl.where(mask, hidden - means, 0.0)
            means += delta / (start // BLOCK_N + 1)
            squares += delta * (hidden - means)
        else:
            squares += hidden * hidden
    mean = tl.zeros([BLOCK_M], dtype=WORKING)
    if CENTRED:
        count = tl.cdiv(tl.maximum(N - lane, 0), BLOCK_N).to(WORKING)[None, :]
        mean = tl.sum(means * count, axis=1) / N.to(WORKING)
        off = means - mean[:, None]
        squares += off * off * count
    rstd = tl.rsqrt(tl.sum(squares, axis=1) / N.to(WORKING) + EPS)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean, mask=row < M)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd, mask=row < M)
    for start in range(0, N, BLOCK_N):
        col = start + lane
        mask = (row < M)[:, None] & (col < N)[None, :]
        stored = load_hidden(x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride, ALIGN, WORKING, "evict_first")
        xhat = centre(stored.to(WORKING), mean, mask, CENTRED) * rstd[:, None]
        y = scale_and_shift(xhat, weight_ptr, bias_ptr, col, N, y_ptr.dtype.element_ty, WORKING, CONVENTION)
        tl.store(y_ptr + row[:, None] * N + col[None, :], y, mask=mask)
