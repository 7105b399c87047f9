"""Inputs that break norms: what values a problem's tensors hold, and how they lie in memory. Pure: imports no torch.

Each is small, has broken released kernels of others, and is one thing out of the ordinary at a time.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .case import Case, DType

__all__ = ["Layout", "Trial", "Values"]


class Values(StrEnum):
    """Name what the tensors hold; what is not named in a member is as in `NORMAL`."""

    NORMAL = "normal"
    LARGE_MEAN = "large_mean"
    NARROW = "narrow"
    TINY = "tiny"
    HUGE = "huge"
    OVERFLOW = "overflow"
    CONSTANT = "constant"
    ZERO_ROWS = "zero_rows"
    NAN = "nan"
    INFINITY = "infinity"
    NAN_UPSTREAM = "nan_upstream"

    @property
    def why(self) -> str:
        """Say in one line what the values are and what they find out."""
        return _VALUES[self]

    @property
    def is_past_float32(self) -> bool:
        """Say that statistics in float32 cannot hold these values: whoever takes them so is not judged by what comes of it."""
        return self is Values.OVERFLOW

    def fits(self, case: Case) -> bool:
        """Say whether a case can hold the values, and they are not those of another member there."""
        if self is Values.NORMAL:
            return True
        if case.is_empty:
            return False
        if self is Values.NARROW:
            # Sixteen bits have no spread narrower than that of LARGE_MEAN.
            return case.dtype in (DType.FLOAT32, DType.FLOAT64)
        if self is Values.TINY:
            return case.eps > 0
        if self is Values.OVERFLOW:
            # The squares of float16 are far from the end of float32; those of float64 are what the oracle itself computes with.
            return case.dtype in (DType.FLOAT32, DType.BFLOAT16)
        if self is Values.NAN_UPSTREAM:
            return case.pass_.has_backward and case.rows > 1
        if self in (Values.NAN, Values.INFINITY, Values.ZERO_ROWS):
            return case.rows > 1
        return True


_VALUES = {
    Values.NORMAL: "normal, x with mean 0.5",
    Values.LARGE_MEAN: "x of mean 40000 and spread 1 (or one unit in the last place): E[x2] - E[x]2 cancels",
    Values.NARROW: "x of mean 10000 that spreads over a few units in the last place: a mean rounded to float32 is as wide as the spread",
    Values.TINY: "mean squares of x like eps, and far below it in every second row: eps outside the root, scaled or rounded away",
    Values.HUGE: "x up to 60000 in float16, else as large as a float32 sum of squares can be: squares in float16, cubes in float32",
    Values.OVERFLOW: "x near 1e25, whose squares float32 cannot hold: told, not judged",
    Values.CONSTANT: "every row of one value: a variance of rounding errors, NaN from a negative one",
    Values.ZERO_ROWS: "rows of zeros, such as padding, beside normal ones: 0/0",
    Values.NAN: "one NaN in one row of x: that row is NaN, its neighbours are right",
    Values.INFINITY: "one infinity in one row of x: that row is what the formula makes of it, its neighbours are right",
    Values.NAN_UPSTREAM: "one NaN in dy: its row of dx and its column of dweight and dbias are NaN, nothing else",
}


class Layout(StrEnum):
    """Name how the tensors lie in memory; what is not named in a member is contiguous. What lies between is NaN, and must stay."""

    CONTIGUOUS = "contiguous"
    SLICED = "sliced"
    MISALIGNED = "misaligned"
    SECOND_ROWS = "second_rows"
    TRANSPOSED = "transposed"
    HEADS = "heads"
    STRIDED_WEIGHT = "strided_weight"
    DY_EXPANDED = "dy_expanded"
    DY_STRIDED = "dy_strided"
    DY_TRANSPOSED = "dy_transposed"

    @property
    def why(self) -> str:
        """Say in one line how the tensors lie and where that comes from."""
        return _LAYOUTS[self]

    @property
    def is_upstream(self) -> bool:
        """Say that it is the upstream gradients that lie so."""
        return self in (Layout.DY_EXPANDED, Layout.DY_STRIDED, Layout.DY_TRANSPOSED)

    def fits(self, case: Case) -> bool:
        """Say whether the case has tensors that can lie so."""
        if self is Layout.CONTIGUOUS:
            return True
        if case.is_empty or (self.is_upstream and not case.pass_.has_backward):
            return False
        if self is Layout.STRIDED_WEIGHT:
            return case.weight_dtype is not None
        if self is Layout.HEADS:
            return len(case.shape) >= 3
        return len(case.shape) >= 2 or self in (Layout.SLICED, Layout.MISALIGNED, Layout.DY_EXPANDED, Layout.DY_STRIDED)


_LAYOUTS = {
    Layout.CONTIGUOUS: "contiguous",
    Layout.SLICED: "rows of x and residual cut out of wider ones, 16-byte aligned: q out of a fused qkv",
    Layout.MISALIGNED: "rows of x and residual that begin one element into wider ones of odd width: nothing is 16-byte aligned",
    Layout.SECOND_ROWS: "every second row of x and residual",
    Layout.TRANSPOSED: "x and residual transposed: neighbours in a row lie apart",
    Layout.HEADS: "(batch, sequence, heads, width) out of (batch, heads, sequence, width): rows have no common stride",
    Layout.STRIDED_WEIGHT: "every second element of a vector as weight and bias",
    Layout.DY_EXPANDED: "upstream gradients of stride 0, as y.sum().backward() makes them",
    Layout.DY_STRIDED: "every second column of wider upstream gradients",
    Layout.DY_TRANSPOSED: "upstream gradients transposed",
}


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Say with which tensors a case is tried."""

    values: Values = Values.NORMAL
    layout: Layout = Layout.CONTIGUOUS

    def fits(self, case: Case) -> bool:
        """Say whether the case can be tried so."""
        return self.values.fits(case) and self.layout.fits(case)

    @property
    def label(self) -> str:
        """Return what is out of the ordinary, e.g. `large_mean, dy_expanded`; empty for contiguous tensors of normal values."""
        values = "" if self.values is Values.NORMAL else self.values.value
        layout = "" if self.layout is Layout.CONTIGUOUS else self.layout.value
        return ", ".join(part for part in (values, layout) if part)
