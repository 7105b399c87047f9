"""Fewest bytes and operations of a case, and the memory it needs: one model for every provider. Pure.

Tensors, with R rows, N columns, e bytes per element of x and w per element of the weight (s: 4, or 8 for float64):

    x, residual, y, residual_out, dy, dresidual_out, dx    R N e each
    weight, bias, dweight, dbias                           N w each
    mean (LayerNorm only), rstd                            R s each
"""

from __future__ import annotations

from .case import Case, DType, Norm

__all__ = ["arithmetic_intensity", "bytes_moved", "flops", "predicted_peak_bytes"]

# The most that was live at once in one call beyond its inputs, in tensors of x's size and accumulation type, counted by
# `measure.memory` over eager, aten and compile x both norms x float32 and bfloat16 x all weight conventions (torch 2.13, CPU).
# The worst is eager everywhere: forward 4.0 (4.5 with a residual), backward 5.0 beside the 2.0 its graph saves, forward_backward
# 7.0 (8.0 with a residual). Compiled: 1.0 (2.0) and 2.0 (3.0).
_LIVE_FORWARD = 5
_LIVE_FORWARD_BACKWARD = 8
_SAVED = 2

_FIXED_BYTES = 64 * 2**20
"""The tile that inputs are drawn from, twice, and the oracle's buffers for one chunk of rows, whatever the case's size."""


def bytes_moved(case: Case) -> int:
    """Return the fewest bytes a case's pass can move: each input read once, each output written once.

    forward: x (+ residual) (+ weight, bias) read; y (+ residual_out) written.
    backward: the normalised input, dy (+ dresidual_out) (+ weight) and the saved statistics read; dx (+ dweight, dbias) written.
    forward_backward: both, and the statistics written by forward.

    The gradients of x and of residual are the same values, so they are written once: autograd hands one tensor to both. A norm's
    forward and backward cannot share a read of x, because dy does not exist before y has left. Tensors that a case does not have
    do not count. Neither do partial sums of dweight, which are a provider's own choice.
    """
    activation = case.numel * case.dtype.itemsize
    statistics = case.rows * _statistics_per_row(case) * _accumulator_bytes(case)
    weight = case.cols * case.weight_dtype.itemsize if case.weight_dtype else 0
    affine = weight * (2 if case.bias else 1)
    streams = 2 if case.residual else 1
    forward = 2 * streams * activation + affine
    backward = (2 + streams) * activation + statistics + weight + affine
    if not case.pass_.has_backward:
        return forward
    if not case.pass_.has_forward:
        return backward
    return forward + statistics + backward


def flops(case: Case) -> int:
    """Return the floating-point operations of a case per pass, an addition or a multiplication being one each.

    Per element, forward: RMSNorm 3 (square, sum, scale), LayerNorm 5 (sum; subtract, square, sum; scale); 1 more each for weight,
    bias and residual. Backward: RMSNorm 6 (x-hat; product and sum with dy; dx in three), LayerNorm 9 (x-hat in two; product and
    sum with dy; sum of dy; dx in four); weight 3 more (dy * weight; product and sum of dweight), bias 1 (sum of dy), residual 1
    (add dresidual_out). Work per row (rsqrt) or per column is left out.
    """
    weight, bias, residual = case.weight_dtype is not None, case.bias, case.residual
    layer_norm = case.norm is Norm.LAYER_NORM
    per_element = 0
    if case.pass_.has_forward:
        per_element += (5 if layer_norm else 3) + weight + bias + residual
    if case.pass_.has_backward:
        per_element += (9 if layer_norm else 6) + 3 * weight + bias + residual
    return per_element * case.numel


def arithmetic_intensity(case: Case) -> float:
    """Return operations per byte, `flops` over `bytes_moved`: 0.1 to 2.2 for a norm, far below any device's balance point."""
    return flops(case) / bytes_moved(case)


def predicted_peak_bytes(case: Case, providers: int) -> int:
    """Return a cautious estimate of the memory that checking and measuring a case with so many providers takes, in bytes.

    Checking holds the inputs, every provider's outputs (gradients included) and what the hungriest provider has live at once. Measuring
    holds the inputs, the target of the copy that runs along, for the backward pass every provider's graph, and again the hungriest
    provider. Copies of inputs that a provider overwrites, buffers that flush a cache, and the interpreter with its compilers come on top.
    """
    streams = 2 if case.residual else 1
    directions = 2 if case.pass_.has_backward else 1
    activation = case.numel * case.dtype.itemsize
    wide = case.numel * _accumulator_bytes(case)
    affine = (case.bias + 1) * case.cols * case.weight_dtype.itemsize if case.weight_dtype else 0

    inputs = streams * directions * activation + affine
    outputs = streams * directions * activation + affine
    working = (_LIVE_FORWARD_BACKWARD if case.pass_.has_backward else _LIVE_FORWARD) * wide
    graphs = 0 if case.pass_.has_forward else providers * (_SAVED * wide + streams * activation)
    return _FIXED_BYTES + inputs + max(providers * outputs, activation + graphs) + working


def _statistics_per_row(case: Case) -> int:
    return 2 if case.norm is Norm.LAYER_NORM else 1


def _accumulator_bytes(case: Case) -> int:
    """Return the size of the type a norm is accumulated in: fp32, or float64 for float64."""
    return 8 if case.dtype is DType.FLOAT64 else 4
