"""Adversarial tensors: values written over a normal problem's, and views that lie in memory as a layout says."""

from __future__ import annotations

from math import nan, sqrt

import torch
from torch import Tensor

from ..cases.adversary import Layout, Values
from ..cases.case import Case, DType

__all__ = ["clone_as_laid_out", "distort", "lay_out", "whole_storage"]

LARGE_MEAN, NARROW_MEAN = 40_000.0, 10_000.0
NARROW_UNITS = 8
"""Spread of a narrow row in units in the last place: in float32 about that of the ramp 10000 + i / 1000 over 16 columns, and above the
root of eps, so that a wrong variance changes the result."""

# A sum of squares of `cols` normal values times HUGE**2 / cols stays below the largest float32, 3.4e38, and the square of the reciprocal
# above the smallest. float64 keeps further away from its own ends: the oracle has no wider dtype to compute in.
HUGE = {DType.FLOAT32: 1e18, DType.BFLOAT16: 1e18, DType.FLOAT64: 1e100}
HUGE_FLOAT16 = 60_000.0
OVERFLOW = 1e25

ALIGNED, MISALIGNED = 8, 1
"""Elements before a row that is cut out of a wider one: 16 bytes of a 16-bit dtype, and one."""


def distort(case: Case, values: Values, tensors: dict[str, Tensor]) -> None:
    """Write `values` over x, residual and dy of a normal problem, which have the case's shape and dtype and are contiguous."""
    if values is Values.NORMAL:
        return
    x = tensors["x"].view(case.rows, case.cols)
    n = x.to(torch.float64)
    if values is Values.LARGE_MEAN:
        x.copy_(LARGE_MEAN + n * max(1.0, _unit(LARGE_MEAN, x.dtype)))
    elif values is Values.NARROW:
        x.copy_(NARROW_MEAN + n * (NARROW_UNITS * _unit(NARROW_MEAN, x.dtype)))
    elif values is Values.TINY:
        x.copy_(n * sqrt(case.eps))
        x[1::2] *= 0.01
        if "residual" in tensors:
            tensors["residual"].mul_(0.1 * sqrt(case.eps))
    elif values is Values.HUGE:
        if case.dtype is DType.FLOAT16:
            x.copy_((n * (HUGE_FLOAT16 / 3)).clamp_(-HUGE_FLOAT16, HUGE_FLOAT16))
        else:
            x.copy_(n * (HUGE[case.dtype] / sqrt(case.cols)))
    elif values is Values.OVERFLOW:
        x.copy_(n * OVERFLOW)
    elif values is Values.CONSTANT:
        # Each row the first of its own values; 1234 in the first one, whose sums are exact up to 13594 columns.
        first = n[:, :1].clone()
        first[0] = 1234.0
        x.copy_(first.expand_as(x))
        if "residual" in tensors:
            tensors["residual"].fill_(2.0)
    elif values is Values.ZERO_ROWS:
        x[::3] = 0
        if "residual" in tensors:
            tensors["residual"].view_as(x)[::3] = 0
    elif values in (Values.NAN, Values.INFINITY):
        x[case.rows // 2, case.cols // 2] = nan if values is Values.NAN else torch.inf
        if values is Values.INFINITY and case.rows > 3:
            x[-1, 0] = -torch.inf
    elif values is Values.NAN_UPSTREAM:
        tensors["dy"].view_as(x)[case.rows // 2, case.cols // 3] = nan


def _unit(value: float, dtype: torch.dtype) -> float:
    """Return one unit in the last place of a dtype at a value above 1."""
    return float(torch.finfo(dtype).eps) * 2.0 ** (int(value).bit_length() - 1)


def lay_out(tensor: Tensor, layout: Layout) -> Tensor:
    """Return a view that equals the tensor and lies in a storage of its own as the layout says, NaN in between.

    An expanded one holds the tensor's first element everywhere.
    """
    if layout is Layout.CONTIGUOUS:
        return tensor
    if layout is Layout.DY_EXPANDED:
        return tensor.reshape(-1)[:1].clone().view([1] * tensor.ndim).expand(tensor.shape)
    view = _empty_view(tensor, layout)
    view.copy_(tensor)
    return view


def _empty_view(tensor: Tensor, layout: Layout) -> Tensor:
    *leading, cols = tensor.shape

    def filled(*shape: int) -> Tensor:
        return torch.full(shape, nan, dtype=tensor.dtype, device=tensor.device)

    match layout:
        case Layout.SLICED:
            return filled(*leading, _multiple_of(ALIGNED, cols) + 2 * ALIGNED)[..., ALIGNED : ALIGNED + cols]
        case Layout.MISALIGNED:
            return filled(*leading, cols + 2 + cols % 2 + MISALIGNED)[..., MISALIGNED : MISALIGNED + cols]
        case Layout.SECOND_ROWS:
            return filled(2 * leading[0], *leading[1:], cols)[::2]
        case Layout.TRANSPOSED | Layout.DY_TRANSPOSED:
            return filled(*leading[:-1], cols, leading[-1]).transpose(-1, -2)
        case Layout.HEADS:
            return filled(*leading[:-2], leading[-1], leading[-2], cols).transpose(-3, -2)
        case Layout.STRIDED_WEIGHT | Layout.DY_STRIDED:
            return filled(*leading, 2 * cols)[..., ::2]
    raise AssertionError(layout)


def _multiple_of(unit: int, value: int) -> int:
    return -(-value // unit) * unit


def whole_storage(tensor: Tensor) -> Tensor:
    """Return every byte of the memory that a tensor is a view of, its neighbours included, as one vector of uint8."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def clone_as_laid_out(tensor: Tensor) -> Tensor:
    """Return a copy that lies in a storage of its own just as the tensor lies in its one, neighbours included."""
    storage = whole_storage(tensor).clone().untyped_storage()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
