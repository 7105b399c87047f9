"""The backward kernels of both norms: dx, and dweight and dbias from partial sums.

M is rows, N is cols. With g = dy * factor (the weight, or 1 + weight for gemma), c1 and c2 the row means of g and g * xhat:

    dx      = rstd * (g - c1 - xhat * c2) + dresidual_out        c1 is 0 for RMSNorm
    dweight = sum over rows of dy * xhat, dbias of dy            llama: xhat rounded to the dtype of x

Each program sums over its own rows in the working precision and writes one partial sum; a second kernel adds these in a fixed order,
so that a result has the same bits every time. Sizes and strides come in units of ALIGN elements (see `forward`).
"""

# A kernel is Triton, not Python: its parameters have no types that mypy knows.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from .parts import centre, factor_of, load_statistic, load_tile

__all__ = ["norm_backward", "norm_backward_projections", "sum_partials"]

_SIZES = ["M", "units", "dy_stride", "hidden_stride", "dresidual_out_stride"]


@triton.jit
def _load_gradients(
    dy_ptr,
    hidden_ptr,
    mean,
    rstd,
    weight_ptr,
    row,
    col,
    mask,
    N,
    dy_stride,
    hidden_stride,
    CENTRED: tl.constexpr,
    CONVENTION: tl.constexpr,
    WORKING: tl.constexpr,
    ALIGN: tl.constexpr,
    EVICT: tl.constexpr,
):
    """Load a tile and return dy, xhat and g = dy * factor in the working precision; masked lanes are 0."""
    dy = load_tile(dy_ptr, row, col, mask, dy_stride, ALIGN, EVICT).to(WORKING)
    hidden = load_tile(hidden_ptr, row, col, mask, hidden_stride, ALIGN, EVICT).to(WORKING)
    xhat = centre(hidden, mean, mask, CENTRED) * rstd[:, None]
    g = dy
    if weight_ptr is not None:
        g = dy * factor_of(weight_ptr, col, N, WORKING, CONVENTION)
    return dy, xhat, g


@triton.jit
def _store_dx(
    dx_ptr,
    dresidual_out_ptr,
    g,
    xhat,
    rstd,
    c1,
    c2,
    row,
    col,
    mask,
    N,
    dresidual_out_stride,
    CENTRED: tl.constexpr,
    WORKING: tl.constexpr,
    ALIGN: tl.constexpr,
):
    """Store a tile of dx, rounded once, with the gradient of the residual's sum added."""
    dx = g - xhat * c2[:, None]
    if CENTRED:
        dx -= c1[:, None]
    dx *= rstd[:, None]
    if dresidual_out_ptr is not None:
        dx += load_tile(dresidual_out_ptr, row, col, mask, dresidual_out_stride, ALIGN, "evict_first").to(WORKING)
    tl.store(dx_ptr + row[:, None] * N + col[None, :], dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _weight_terms(dy, xhat, DTYPE: tl.constexpr, WORKING: tl.constexpr, CONVENTION: tl.constexpr):
    """Return what a tile adds to dweight: dy times what the forward multiplied by the weight."""
    if CONVENTION == "llama":
        xhat = xhat.to(DTYPE).to(WORKING)
    return dy * xhat


@triton.jit(do_not_specialize=_SIZES)
def norm_backward(
    dy_ptr,  # (M, N), rows dy_stride apart
    hidden_ptr,  # (M, N), rows hidden_stride apart: what the forward normalised, x or residual_out
    weight_ptr,  # (N,) or None
    mean_ptr,  # (M,), None for RMSNorm
    rstd_ptr,  # (M,)
    c1_ptr,  # (M,), None where c2_ptr is and for RMSNorm
    c2_ptr,  # (M,); None where a tile holds whole rows and takes their means itself
    dresidual_out_ptr,  # (M, N), rows dresidual_out_stride apart, or None
    dx_ptr,  # (M, N), contiguous
    dweight_ptr,  # (groups, N) partial sums, or None when it is not wanted
    dbias_ptr,  # (groups, N) partial sums, or None
    M,
    units,  # N in units of ALIGN, as the strides are
    dy_stride,
    hidden_stride,
    dresidual_out_stride,
    CENTRED: tl.constexpr,
    CONVENTION: tl.constexpr,
    WORKING: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Walk down a block of columns, program by group of rows: dx, and the sums over the rows that are met, in one read."""
    N = units * ALIGN
    col = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dweight = tl.zeros([BLOCK_M, BLOCK_N], dtype=WORKING)
    dbias = tl.zeros([BLOCK_M, BLOCK_N], dtype=WORKING)
    # Few programs fit on a multiprocessor with the sums in registers, so each fetches its next tile while it computes this one.
    # tl.cdiv would add to M before it divides, and overflow just below 2**31 rows; M is at least 1.
    for tile in tl.range(tl.program_id(1), (M - 1) // BLOCK_M + 1, tl.num_programs(1), num_stages=2):
        row = tile * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
        mask = (row < M)[:, None] & (col < N)[None, :]
        mean = load_statistic(mean_ptr, row, M)
        rstd = load_statistic(rstd_ptr, row, M)
        dy, xhat, g = _load_gradients(
            dy_ptr,
            hidden_ptr,
            mean,
            rstd,
            weight_ptr,
            row,
            col,
            mask,
            N,
            dy_stride,
            hidden_stride,
            CENTRED,
            CONVENTION,
            WORKING,
            ALIGN,
            "evict_first",
        )
        if c2_ptr is None:
            c1 = tl.sum(g, axis=1) / N.to(WORKING)
            c2 = tl.sum(g * xhat, axis=1) / N.to(WORKING)
        else:
            c1 = load_statistic(c1_ptr, row, M)
            c2 = load_statistic(c2_ptr, row, M)
        _store_dx(dx_ptr, dresidual_out_ptr, g, xhat, rstd, c1, c2, row, col, mask, N, dresidual_out_stride, CENTRED, WORKING, ALIGN)
        if dweight_ptr is not None:
            dweight += _weight_terms(dy, xhat, hidden_ptr.dtype.element_ty, WORKING, CONVENTION)
        if dbias_ptr is not None:
            dbias += dy
    partial = tl.program_id(1) * N + col
    if dweight_ptr is not None:
        tl.store(dweight_ptr + partial, tl.sum(dweight, axis=0), mask=col < N)
    if dbias_ptr is not None:
        tl.store(dbias_ptr + partial, tl.sum(dbias, axis=0), mask=col < N)


@triton.jit(do_not_specialize=_SIZES)
def norm_backward_projections(
    dy_ptr,
    hidden_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    c1_ptr,  # (M,), None for RMSNorm
    c2_ptr,  # (M,)
    M,
    units,
    dy_stride,
    hidden_stride,
    CENTRED: tl.constexpr,
    CONVENTION: tl.constexpr,
    WORKING: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Compute the row means c1 and c2 of a row too wide to be kept on chip, in steps of BLOCK_N columns."""
    N = units * ALIGN
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    mean = load_statistic(mean_ptr, row, M)
    rstd = load_statistic(rstd_ptr, row, M)
    # Summed lane by lane and across lanes once: a sum across the program in every step would cost two barriers a step.
    c1 = tl.zeros([1, BLOCK_N], dtype=WORKING)
    c2 = tl.zeros([1, BLOCK_N], dtype=WORKING)
    for start in range(0, N, BLOCK_N):
        col = start + tl.arange(0, BLOCK_N)
        _, xhat, g = _load_gradients(
            dy_ptr,
            hidden_ptr,
            mean,
            rstd,
            weight_ptr,
            row,
            col,
            (col < N)[None, :],
            N,
            dy_stride,
            hidden_stride,
            CENTRED,
            CONVENTION,
            WORKING,
            ALIGN,
            "evict_last",
        )
        c1 += g
        c2 += g * xhat
    if c1_ptr is not None:
        tl.store(c1_ptr + row, tl.sum(c1, axis=1) / N.to(WORKING))
    tl.store(c2_ptr + row, tl.sum(c2, axis=1) / N.to(WORKING))


@triton.jit(do_not_specialize=["count", "N"])
def sum_partials(partial_ptr, sum_ptr, count, N, WORKING: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Add `count` partial sums (count, N), always in the same order, and round once to the dtype of the result (N,)."""
    col = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=WORKING)
    for start in range(0, count, BLOCK_M):
        row = start + tl.arange(0, BLOCK_M)
        mask = (row < count)[:, None] & (col < N)[None, :]
        total += tl.load(partial_ptr + row[:, None] * N + col[None, :], mask=mask, other=0.0)
    tl.store(sum_ptr + col, tl.sum(total, axis=0).to(sum_ptr.dtype.element_ty), mask=col < N)
