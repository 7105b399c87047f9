"""Triton's interpreter as a stand-in for a GPU: rounding as a GPU does, and cases small enough for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import msgspec

from ..cases.case import Case

__all__ = ["fewer_rows", "rounds_to_nearest", "shrink"]

MAX_ROWS = 61
"""Rows checked: prime, so that the last program of several rows is partly masked; a program takes milliseconds here."""

MAX_ELEMENTS = 2**19
"""Elements checked, but at least 3 rows: two chunks of float64, or 3 rows of 262144."""


@contextmanager
def rounds_to_nearest() -> Iterator[None]:
    """Make the interpreter round float32 to bfloat16 to nearest, ties to even, as a GPU does, and cast between it and other floats.

    Triton's own interpreter (3.9) cuts the low bits off, which is up to one unit in the last place and always towards zero. Between
    float64 and bfloat16 it takes the bits for an integer; those casts go by way of float32.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    cutting, casting = interpreter._convert_float, interpreter.InterpreterBuilder.cast_impl

    def convert(values: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
        if source != tl.float32 or target != tl.bfloat16:
            return cutting(values, source, target, rounding_mode)
        bits = np.ascontiguousarray(values).view(np.uint32)
        # Rounding must not carry a NaN into infinity: the highest mantissa bit keeps it one.
        rounded = np.where(np.isnan(bits.view(np.float32)), bits | 0x0040_0000, bits + 0x7FFF + ((bits >> 16) & 1))
        return (rounded >> 16).astype(np.uint16)

    def cast(builder: Any, source: Any, target: Any) -> Any:
        ends = (source.dtype.scalar, target.scalar)
        if tl.bfloat16 in ends and tl.float64 in ends:
            source = casting(builder, source, tl.float32)
        return casting(builder, source, target)

    interpreter._convert_float, interpreter.InterpreterBuilder.cast_impl = convert, cast
    try:
        yield
    finally:
        interpreter._convert_float, interpreter.InterpreterBuilder.cast_impl = cutting, casting


def fewer_rows(case: Case) -> Case:
    """Return the case with as many rows as the interpreter gets through in seconds, itself if that is all; its width stays."""
    return shrink(case, min(MAX_ROWS, max(3, MAX_ELEMENTS // max(case.cols, 1))))


def shrink(case: Case, rows: int) -> Case:
    """Return the case with at most `rows` rows, at least 1; its width and the number of its dimensions stay."""
    *leading, cols = case.shape
    for place, size in enumerate(leading):
        behind = prod(leading[place + 1 :])
        leading[place] = min(size, max(1, rows // max(behind, 1)))
    return msgspec.structs.replace(case, shape=(*leading, cols))
