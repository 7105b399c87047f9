"""Parts that the kernels share. M is rows, N is cols; a tile is (BLOCK_M, BLOCK_N), a row's statistics are (BLOCK_M,)."""

# A kernel is Triton, not Python: its parameters have no types that mypy knows.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["centre", "factor_of", "load_hidden", "load_statistic", "load_tile", "scale_and_shift"]


@triton.jit
def load_tile(pointer, row, col, mask, stride, ALIGN: tl.constexpr, EVICT: tl.constexpr):
    """Load a tile of rows `stride` times ALIGN elements apart; masked lanes are 0.

    A single row may be 2**31 elements from the next, and row times that may be anything: both are int64.
    """
    return tl.load(pointer + row[:, None] * (stride.to(tl.int64) * ALIGN) + col[None, :], mask=mask, other=0.0, eviction_policy=EVICT)


@triton.jit
def load_hidden(
    x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride, ALIGN: tl.constexpr, WORKING: tl.constexpr, EVICT: tl.constexpr
):
    """Load a tile of x, or of x + residual rounded once to the dtype of x; masked lanes are 0."""
    hidden = load_tile(x_ptr, row, col, mask, x_stride, ALIGN, EVICT)
    if residual_ptr is not None:
        residual = load_tile(residual_ptr, row, col, mask, residual_stride, ALIGN, EVICT)
        hidden = (hidden.to(WORKING) + residual.to(WORKING)).to(x_ptr.dtype.element_ty)
    return hidden


@triton.jit
def load_statistic(pointer, row, M):
    """Load one value a row; 0 past the last row, and where the norm has no such statistic (the mean of RMSNorm)."""
    value = tl.zeros(row.shape, dtype=tl.float32)
    if pointer is not None:
        value = tl.load(pointer + row, mask=row < M, other=0.0)
    return value


@triton.jit
def centre(hidden, mean, mask, CENTRED: tl.constexpr):
    """Subtract each row's mean from a tile, for LayerNorm. Masked lanes stay 0: left at -mean each would add mean^2 to the variance."""
    return tl.where(mask, hidden - mean[:, None], 0.0) if CENTRED else hidden


@triton.jit
def factor_of(weight_ptr, col, N, WORKING: tl.constexpr, CONVENTION: tl.constexpr):
    """Load what xhat is multiplied by, in the working precision: the weight, or 1 + weight for gemma."""
    # Every row reads the weight again, so it is worth its place in the cache.
    factor = tl.load(weight_ptr + col, mask=col < N, other=0.0, eviction_policy="evict_last").to(WORKING)
    if CONVENTION == "gemma":
        factor += 1.0
    return factor[None, :]


@triton.jit
def scale_and_shift(xhat, weight_ptr, bias_ptr, col, N, DTYPE: tl.constexpr, WORKING: tl.constexpr, CONVENTION: tl.constexpr):
    """Multiply a tile of xhat by the weight as the convention says, add the bias, and round once to DTYPE."""
    if CONVENTION == "llama":
        xhat = xhat.to(DTYPE).to(WORKING)
    if weight_ptr is not None:
        xhat *= factor_of(weight_ptr, col, N, WORKING, CONVENTION)
    if bias_ptr is not None:
        xhat += tl.load(bias_ptr + col, mask=col < N, other=0.0, eviction_policy="evict_last").to(WORKING)[None, :]
    return xhat.to(DTYPE)
