"""The float64 oracle: what a case's outputs and gradients are, and how far rounding alone may carry a provider from them.

With h = x, or x + residual rounded once to its dtype; u the half unit in the last place of a dtype; c1 and c2 row means:

    layer_norm   xhat = (h - mean(h)) / sqrt(mean((h - mean(h))^2) + eps)      arXiv:1607.06450, eq. 4
    rms_norm     xhat = h / sqrt(mean(h^2) + eps)                              arXiv:1910.07467, eq. 4
    y            weight * xhat + bias; llama: weight * round(xhat); gemma: (1 + weight) * xhat
    dx           rstd * (g - c1 - xhat * c2) + dresidual_out, g = dy * weight, c1 = mean(g) (layer_norm only), c2 = mean(g * xhat)
    dweight      sum over rows of dy * xhat; dbias the sum of dy

Rounding is treated as the identity where it is differentiated, as autograd does.

A NaN or an infinity in an input is carried through these formulas in float64, and what they make of it is asked of every provider:
a NaN in a row of x makes that row of y and dx and every column of dweight NaN; an infinity does so too in layer_norm, while in
rms_norm it makes its row of y 0, and NaN where it stands; a NaN in dy makes its row of dx and its column of dweight and dbias NaN.
No other row and no other column knows of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2, sqrt

import torch
from torch import Tensor

from ..cases.case import Convention, DType, Norm
from ..cases.definition import Definition
from .problem import Problem, torch_dtype

__all__ = ["TOLERANCES", "Expected", "Oracle", "Tolerance"]

CHUNK = 2**18
"""Elements of a chunk of rows: its half dozen float64 buffers stay in cache; 2**22 is 8 times slower per element on a 2-core CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Say how many roundings an element may go through.

    `output`: roundings of the finished value, in u of its dtype. `inner`: roundings to the dtype of x of what a gradient is made
    of, in u of that dtype. `working`: float32 steps (float64 for float64), in u of float32.
    """

    output: float
    inner: float
    working: float


TOLERANCES = {
    # working 16, for every dtype: sums in any order. The most seen of the built-in providers is 5, from 1 to 65536 columns. Where the
    # roundings of a sum all go one way, in rows of a large mean or of one value, it takes a sum over a tree: one in order strays by
    # up to 110 over 72704 columns.
    # inner 0: nothing is kept in less than the working precision. output 1: the result is rounded once.
    DType.FLOAT64: Tolerance(output=1, inner=0, working=16),
    DType.FLOAT32: Tolerance(output=1, inner=0, working=16),
    # output 1: computed in float32 and rounded once, which y of every built-in provider reaches to 0.4 %.
    # inner 2: with a residual autograd rounds the norm's gradient before it adds the other one; llama rounds dy * weight; ATen's CPU
    # LayerNorm keeps mean and rstd in 16 bits (see KEPT_MEAN). The most seen is 1.6.
    DType.BFLOAT16: Tolerance(output=1, inner=2, working=16),
    DType.FLOAT16: Tolerance(output=1, inner=2, working=16),
}

# Roundings of the mean, beside log2(cols): the division, and one to spare. A sum over a tree of any shape that has log2(cols) levels is
# off by a rounding a level at most (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2), and rows of one
# value come near it, since all their roundings go the same way: 7.0 of 12 were seen at 1000 columns and 8.5 of 18 at 65536, with
# PyTorch's own sums; other rows show 3.1 at most.
MEAN_ROUNDINGS = 2

# A mean kept in 16 bits for the backward is granted as what ordinary activations make of it, up to twice their spread. Beside a larger
# mean it is a fault: with a mean of 40000 and a spread of 250 in bfloat16 it moves xhat by up to half its size, and float32 does not.
KEPT_MEAN = 2.0

# xhat that is off by a float32 rounding may round to the other neighbour, 2 u away, or a compiler may leave that rounding out, 1 u;
# the product with the weight or with dy is then rounded once more.
LLAMA_ROUNDINGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Hold the exact value of a tensor or of some of its rows in float64, and the largest deviation that rounding can explain.

    A `limit` of None asks for equality to the bit.
    """

    value: Tensor
    limit: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statistics:
    """Hold what is known of each row, all (rows, 1): rstd; by how much a rounded mean may shift xhat; mean / spread as far as granted.

    `pull` is the factor of the projection on xhat in dx: 1, or (root + eps) / root where eps is outside the root.
    """

    rstd: Tensor
    shift: Tensor
    kept: Tensor
    pull: Tensor


class Oracle:
    """Compute a problem's exact outputs and gradients chunk by chunk, so that large problems need no large float64 tensors."""

    def __init__(self, problem: Problem, definition: Definition = Definition.FORMULA) -> None:
        """Prepare to compute what a provider of that definition should."""
        case = problem.case
        self._definition = definition
        self._case = case
        self._problem = problem
        self._dtype = torch_dtype(case.dtype)
        self._tolerance = TOLERANCES[case.dtype]
        self._u = torch.finfo(self._dtype).eps / 2
        self._smallest = torch.finfo(self._dtype).eps * torch.finfo(self._dtype).tiny
        working = torch.float64 if case.dtype is DType.FLOAT64 else torch.float32
        self._working = self._tolerance.working * torch.finfo(working).eps / 2
        self._mean_rounding = (log2(max(case.cols, 1)) + MEAN_ROUNDINGS) * torch.finfo(working).eps / 2
        self._factor = None if problem.weight is None else problem.weight.detach().double()
        if self._factor is not None and case.convention is Convention.GEMMA:
            self._factor = self._factor + 1.0
        self._bias = None if problem.bias is None else problem.bias.detach().double()
        self._step = max(1, CHUNK // max(case.cols, 1))
        self._buffers: dict[str, Tensor] = {}
        self._sums = {name: torch.zeros(case.cols, dtype=torch.float64, device=problem.device) for name in _SUMS}

    def chunks(self) -> Iterator[tuple[slice, dict[str, Expected]]]:
        """Yield rows and what y, residual_out, dx and dresidual are in them, each of shape (rows, cols).

        What is yielded is overwritten by the next chunk. Nothing is yielded for an empty case.
        """
        rows = 0 if self._case.is_empty else self._case.rows
        for start in range(0, rows, self._step):
            chunk = slice(start, min(start + self._step, rows))
            yield chunk, self._chunk(chunk)

    def column_gradients(self) -> dict[str, Expected]:
        """Return dweight and dbias, of shape (1, cols), as far as the case has them; call it after the last chunk."""
        case, sums = self._case, self._sums
        gradients: dict[str, Expected] = {}
        if not case.pass_.has_backward or case.weight_dtype is None:
            return gradients
        u = torch.finfo(torch_dtype(case.weight_dtype)).eps / 2
        smallest = torch.finfo(torch_dtype(case.weight_dtype)).tiny * 2 * u
        # A float32 sum of `rows` terms takes one rounding a term, each relative to the partial sum, their signs at random: the error
        # grows with sqrt(rows) times the size of the partial sums. Blocked sums do better, a serial one does not do worse.
        summing = self._working * sqrt(max(case.rows, 1))
        is_llama = case.convention is Convention.LLAMA
        inner = self._u * (max(self._tolerance.inner, LLAMA_ROUNDINGS) if is_llama else self._tolerance.inner)
        for name, size in (("dweight", sums["dweight_squares"].sqrt()), ("dbias", sums["dbias_squares"].sqrt())):
            if name == "dbias" and not case.bias:
                continue
            value = sums[name]
            limit = (u + summing) * value.abs() + (summing + inner) * size + smallest
            if name == "dweight":
                limit += sums["dweight_shifts"]
            gradients[name] = Expected(value=value[None], limit=limit[None])
        return gradients

    def _buffer(self, name: str, rows: int) -> Tensor:
        if name not in self._buffers:
            shape = (min(self._step, self._case.rows), self._case.cols)
            self._buffers[name] = torch.empty(shape, dtype=torch.float64, device=self._problem.device)
        return self._buffers[name][:rows]

    def _load(self, name: str, tensor: Tensor, chunk: slice) -> Tensor:
        rows = tensor.detach().reshape(self._case.rows, self._case.cols)[chunk]
        return self._buffer(name, len(rows)).copy_(rows)

    def _chunk(self, chunk: slice) -> dict[str, Expected]:
        case, problem = self._case, self._problem
        expected: dict[str, Expected] = {}
        hidden = self._load("hidden", problem.x, chunk)
        if problem.residual is not None:
            hidden.add_(self._load("scratch", problem.residual, chunk))
            residual_out = self._buffer("residual_out", len(hidden)).copy_(hidden.to(self._dtype))
            if self._definition is not Definition.UNROUNDED_SUM:
                hidden.copy_(residual_out)
            expected["residual_out"] = Expected(value=residual_out, limit=None)
        xhat, rows = self._normalise(hidden)
        expected["y"] = self._output(xhat, rows.shift)
        if problem.dy is not None:
            dy = self._load("dy", problem.dy, chunk)
            products = self._add_columns(xhat, rows, dy)
            expected["dx"] = self._input_gradient(xhat, rows, dy, products, chunk)
            if case.residual:
                expected["dresidual"] = expected["dx"]
        return expected

    def _normalise(self, hidden: Tensor) -> tuple[Tensor, _Statistics]:
        """Return xhat (in place of hidden) and the statistics of its rows.

        Any float32 computation subtracts a mean that is off by roundings of it, which are |mean| * rstd roundings of xhat and the same
        for the whole row: an input of large mean and small spread is told right no better than that. The variance then is taken
        around the shifted mean: with a shift s of xhat all of the row is scaled by 1 / sqrt(1 + s^2). E[x2] - E[x]2 is worse by
        |mean| * rstd again.
        """
        if self._case.norm is Norm.RMS_NORM:
            mean_square, pull = self._mean_square(hidden), torch.ones(1, dtype=torch.float64, device=hidden.device)
            if self._definition is Definition.EPS_OUTSIDE_ROOT:
                root = mean_square.sqrt_()
                rstd = (root + self._case.eps).reciprocal_()
                pull = (root + self._case.eps).div_(root)
            else:
                rstd = (mean_square + self._case.eps).rsqrt_()
            return hidden.mul_(rstd), _Statistics(rstd=rstd, shift=torch.zeros_like(rstd), kept=torch.zeros_like(rstd), pull=pull)
        mean = hidden.mean(1, keepdim=True)
        hidden.sub_(mean)
        variance = self._mean_square(hidden)
        rstd = (variance + self._case.eps).rsqrt_()
        ratio = (mean.square() + variance).sqrt_().mul_(rstd)
        return hidden.mul_(rstd), _Statistics(
            rstd=rstd, shift=ratio * self._mean_rounding, kept=ratio.clamp(max=KEPT_MEAN), pull=torch.ones_like(rstd)
        )

    def _mean_square(self, values: Tensor) -> Tensor:
        # Not vector_norm, which sums in order: over 65536 columns its float64 result is 20 times worse than this blocked sum.
        return torch.mul(values, values, out=self._buffer("squares", len(values))).mean(1, keepdim=True)

    def _output(self, xhat: Tensor, shift: Tensor) -> Expected:
        is_llama = self._case.convention is Convention.LLAMA
        y = self._buffer("y", len(xhat)).copy_(xhat.to(self._dtype) if is_llama else xhat)
        if self._factor is not None:
            y.mul_(self._factor)
        if self._bias is not None:
            y.add_(self._bias)
        rounding = self._u * (LLAMA_ROUNDINGS if is_llama else self._tolerance.output)
        limit = torch.abs(y, out=self._buffer("y_limit", len(xhat))).mul_(rounding + self._working)
        by_column = torch.ones_like(xhat[0]) if self._factor is None else self._factor.abs()
        limit.addcmul_(self._shifted(xhat, shift), by_column)
        # Before the bias is added the value can be larger than after.
        before_bias = 0.0 if self._bias is None else self._bias.abs() * (self._working + (rounding if is_llama else 0.0))
        return Expected(value=y, limit=limit.add_(before_bias + self._smallest))

    def _shifted(self, xhat: Tensor, shift: Tensor) -> Tensor:
        """Return by how much each element of xhat is off at most when its row's mean is: the shift, and the scale that follows."""
        scaled = torch.abs(xhat, out=self._buffer("shifted", len(xhat)))
        return scaled.mul_(shift.square() / 2).add_(shift)

    def _add_columns(self, xhat: Tensor, rows: _Statistics, dy: Tensor) -> Tensor:
        """Add the chunk to the sums over rows and return dy * xhat."""
        products = torch.mul(dy, xhat, out=self._buffer("products", len(dy)))
        if self._factor is None:
            return products
        scratch = self._buffer("scratch", len(dy))
        if self._case.convention is Convention.LLAMA:
            self._sums["dweight"] += torch.mul(dy, scratch.copy_(xhat.to(self._dtype)), out=scratch).sum(0)
        else:
            self._sums["dweight"] += products.sum(0)
        self._sums["dweight_squares"] += torch.mul(products, products, out=scratch).sum(0)
        if self._case.norm is Norm.LAYER_NORM:
            # Row by row, for the means of rows alike are off the same way.
            self._sums["dweight_shifts"] += torch.mul(self._shifted(xhat, rows.shift), torch.abs(dy, out=scratch), out=scratch).sum(0)
        if self._case.norm is Norm.LAYER_NORM or self._bias is not None:
            squares = torch.mul(dy, dy, out=scratch)
            self._sums["dweight_squares"] += rows.kept.square().mT.matmul(squares)[0]
            self._sums["dbias_squares"] += squares.sum(0)
        self._sums["dbias"] += dy.sum(0)
        return products

    def _input_gradient(self, xhat: Tensor, rows: _Statistics, dy: Tensor, products: Tensor, chunk: slice) -> Expected:
        if self._factor is None:
            c2, g = products.mean(1, keepdim=True), dy
        else:
            c2, g = products.mul_(self._factor).mean(1, keepdim=True), dy.mul_(self._factor)
        size = self._mean_square(g).sqrt_()
        dx = torch.mul(xhat, -c2 * rows.pull, out=products).add_(g)
        if self._case.norm is Norm.LAYER_NORM:
            dx.sub_(g.mean(1, keepdim=True))
        dx.mul_(rows.rstd)
        if self._problem.dresidual_out is not None:
            dx.add_(self._load("scratch", self._problem.dresidual_out, chunk))
        # What dx is made of before its parts cancel: |g| and the projections, each at most rms(g), the one on xhat times |xhat|. A
        # shift s of xhat is in that one twice, at most s * rms(g) * (|xhat| + 1 + s), and the scale that follows is in all of them.
        inexact, scale = self._tolerance.inner * self._u + self._working, rows.shift.square()
        projections = xhat.abs_().mul_(rows.pull).add_(1.0).mul_(size * ((1.0 + rows.kept) * inexact + rows.shift + 2 * scale))
        limit = projections.add_(g.abs_().mul_(inexact + scale)).mul_(rows.rstd)
        limit.add_(torch.abs(dx, out=g), alpha=self._tolerance.output * self._u + self._working).add_(self._smallest)
        return Expected(value=dx, limit=limit)


_SUMS = ("dweight", "dweight_squares", "dweight_shifts", "dbias", "dbias_squares")
