"""A tensor as the kernels read it: two dimensions, any row stride, a last stride of 1."""

from __future__ import annotations

from torch import Tensor

__all__ = ["as_rows"]


def as_rows(tensor: Tensor) -> Tensor:
    """Return a (rows, cols) view of a tensor (..., cols); a copy only where rows have no common stride or a last stride other than 1."""
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.numel() else tensor.new_empty((0, tensor.shape[-1]))
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()
