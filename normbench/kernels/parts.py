"""Parts that the forward kernels share. M is rows, N is cols; a tile is (BLOCK_M, BLOCK_N), statistics are (BLOCK_M,) in float32."""

# A kernel is Triton, not Python: its parameters have no types that mypy knows.
# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["load_hidden", "scale_and_shift"]


@triton.jit
def load_hidden(x_ptr, residual_ptr, row, col, mask, x_stride, residual_stride):
    """Load a tile of x, or of x + residual rounded once to the dtype of x; masked lanes are 0."""
    hidden = tl.load(x_ptr + row[:, None] * x_stride + col[None, :], mask=mask, other=0.0)
    if residual_ptr is not None:
        residual = tl.load(residual_ptr + row[:, None] * residual_stride + col[None, :], mask=mask, other=0.0)
        hidden = (hidden.to(tl.float32) + residual.to(tl.float32)).to(x_ptr.dtype.element_ty)
    return hidden


@triton.jit
def scale_and_shift(xhat, weight_ptr, bias_ptr, col, N, dtype: tl.constexpr, CONVENTION: tl.constexpr):
    """Multiply a tile of xhat by the weight as the convention says, add the bias, all in float32; the caller rounds once."""
    if CONVENTION == "llama":
        xhat = xhat.to(dtype).to(tl.float32)
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + col, mask=col < N, other=0.0).to(tl.float32)
        if CONVENTION == "gemma":
            weight += 1.0
        xhat *= weight[None, :]
    if bias_ptr is not None:
        xhat += tl.load(bias_ptr + col, mask=col < N, other=0.0).to(tl.float32)[None, :]
    return xhat
