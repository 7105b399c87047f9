"""A tensor as the kernels read it: rows of contiguous elements, any distance apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

import torch
from torch import Tensor

from ..errors import NormbenchError
from .launch import LOOP_COLS

__all__ = ["Rows", "alignment", "multiprocessors", "working_dtype"]

MAX_ALIGNMENT = 16
"""Elements that sizes are counted in at most: 16 of the smallest dtype are two 128-bit accesses."""

MAX_COLS = 2**31 - LOOP_COLS
"""Widest row: kernels count columns in 32 bits, and the last step of a loop ends up to one step past the row."""

INTERPRETED_MULTIPROCESSORS = 2
"""Stands for a device where there is none: so few that a persistent program meets several tiles in Triton's interpreter."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Hold a (count, cols) view whose last stride is 1, and the distance of its rows in elements."""

    tensor: Tensor
    count: int
    cols: int
    stride: int

    @classmethod
    def of(cls, tensor: Tensor) -> Rows:
        """View a tensor (..., cols) as rows; it is copied only where rows have no common distance or the last stride is not 1.

        Raises NormbenchError for rows wider than `MAX_COLS`.
        """
        cols = tensor.shape[-1]
        if cols > MAX_COLS:
            raise NormbenchError(
                f"rows of {cols} elements are too wide for the Triton kernels: the limit is {MAX_COLS}; use another provider, such as eager"
            )
        if not tensor.numel():
            return cls(tensor, tensor.shape[:-1].numel(), cols, cols)
        rows = tensor.reshape(-1, cols)
        if rows.stride(1) != 1 and cols > 1:
            rows = rows.contiguous()
        # The stride of a single row is whatever it was cut from; it must not spoil the alignment.
        return cls(rows, len(rows), cols, rows.stride(0) if len(rows) > 1 else cols)


def alignment(*sizes: int) -> int:
    """Return the largest power of two, up to 16, that divides all sizes and strides (in elements)."""
    return gcd(MAX_ALIGNMENT, *sizes)


def working_dtype(dtype: torch.dtype) -> tuple[torch.dtype, Any]:
    """Return what is computed in, for PyTorch and for Triton: float64 for float64, else float32."""
    import triton.language as tl

    return (torch.float64, tl.float64) if dtype == torch.float64 else (torch.float32, tl.float32)


@lru_cache(maxsize=64)
def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors a CUDA device has; a small stand-in for any other."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else INTERPRETED_MULTIPROCESSORS
