"""Every provider's outputs and gradients of a case against the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, prod, sqrt
from sys import float_info
from typing import Any

import torch
from torch import Tensor

from ..cases.case import Case
from ..cases.definition import Definition
from ..host.threads import set_threads
from ..records.record import Accuracy
from .problem import Problem, dtype_name, torch_dtype
from .reference import Expected, Oracle

__all__ = ["check", "describe_failure"]


def check(
    case: Case, problem: Problem, outputs: Mapping[str, Mapping[str, Any]], definition: Definition = Definition.FORMULA
) -> dict[str, tuple[Accuracy, ...]]:
    """Compare the outputs of each provider with the float64 oracle and return one Accuracy per tensor and provider.

    `outputs` maps provider to name to tensor: y, residual_out, dx, dresidual of the case's shape and dtype; dweight, dbias of shape
    (cols,) and the weight's dtype. All that the case has must be there, and nothing else. The figure judged is the largest
    |output - exact| / limit over all elements, at most 1 where rounding explains the deviation (see `reference`); for residual_out it
    is the largest deviation, which must be 0. Where the exact value is a NaN or an infinity the output must be the same; where it is
    finite, so must the output be, but for what rounding may carry past the dtype's range. The oracle runs once for all providers.

    `ulps` counts units in the last place of the output's dtype at the exact value or, where that is larger, at the root mean square of
    its row (of the vector for dweight and dbias), so that an element near zero does not make a large number of a small deviation;
    where rounding explains more than that, no digit of the value is certain, and what it explains is the unit. `relative` is the norm
    of the deviations over that of the exact values, null where rounding explains a norm as large as that.
    """
    wanted = _wanted(case)
    tallies = {
        provider: {name: _Tally(name, wanted.get(name), found.get(name), problem.device) for name in dict.fromkeys([*wanted, *found])}
        for provider, found in outputs.items()
    }
    oracle = Oracle(problem, definition)
    buffers: dict[str, Tensor] = {}
    # On one thread: chunks fit its cache. Two threads on two busy cores wait for each other, 168 s in place of 8 s were seen.
    with set_threads(1):
        for chunk, expected in oracle.chunks():
            _compare(tallies, expected, chunk, buffers)
        _compare(tallies, oracle.column_gradients(), slice(None), {})
    return {provider: tuple(tally.accuracy() for tally in named.values()) for provider, named in tallies.items()}


def describe_failure(accuracies: tuple[Accuracy, ...]) -> str:
    """Return what is wrong with the tensors that did not pass, in words for a record's reason; empty when all passed."""
    return "; ".join(f"{accuracy.tensor} {_describe(accuracy)}" for accuracy in accuracies if not accuracy.passed)


def _describe(accuracy: Accuracy) -> str:
    if accuracy.fault:
        return accuracy.fault
    if accuracy.nonfinite:
        return f"has {accuracy.nonfinite} values that are not finite where the exact ones are"
    if accuracy.swallowed:
        return f"has {accuracy.swallowed} values other than the NaN or infinity that the formula makes of the input's"
    if accuracy.tolerance == 0:
        return f"is off by up to {accuracy.max_abs:.3g}, and it must equal x + residual rounded once to {accuracy.dtype}"
    size = f"{accuracy.max_abs:.3g} ({accuracy.ulps:.3g} ulps of {accuracy.dtype})"
    return f"is off by up to {size}, {accuracy.error:.3g} times what rounding explains"


def _wanted(case: Case) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Return shape and dtype of every tensor that a provider must yield."""
    rows = (case.shape, torch_dtype(case.dtype))
    wanted = {"y": rows}
    if case.residual:
        wanted["residual_out"] = rows
    if case.pass_.has_backward:
        wanted["dx"] = rows
        if case.residual:
            wanted["dresidual"] = rows
        if case.weight_dtype is not None:
            column = ((case.cols,), torch_dtype(case.weight_dtype))
            wanted["dweight"] = column
            if case.bias:
                wanted["dbias"] = column
    return wanted


def _fault(wanted: tuple[tuple[int, ...], torch.dtype] | None, found: Any, device: torch.device) -> str | None:
    if found is None:
        return "is missing"
    if wanted is None:
        return "was not asked for"
    if not isinstance(found, Tensor):
        return f"is of type {type(found).__name__}, not a tensor"
    shape, dtype = wanted
    if found.dtype != dtype:
        return f"has dtype {dtype_name(found.dtype)}, not {dtype_name(dtype)}"
    if tuple(found.shape) != shape:
        return f"has shape {tuple(found.shape)}, not {shape}"
    if found.device.type != device.type:
        return f"is on {found.device}, not on {device}"
    return None


class _Tally:
    """Keep the worst of one provider's tensor over the chunks seen so far."""

    def __init__(self, name: str, wanted: tuple[tuple[int, ...], torch.dtype] | None, found: Any, device: torch.device) -> None:
        self.name = name
        self.fault = _fault(wanted, found, device)
        self.rows: Tensor | None = None
        if self.fault is None:
            self.rows = found.detach().reshape(prod(found.shape[:-1]), found.shape[-1])
        self._dtype = found.dtype if isinstance(found, Tensor) else wanted[1] if wanted else None
        self._tolerance = 0.0 if name == "residual_out" else 1.0
        self._error = self._max_abs = self._ulps = 0.0
        self._nonfinite = self._swallowed = 0
        self._squared_error = 0.0
        self._sizes = _Sizes()
        self._has_finite = self.rows is not None and self.rows.numel() == 0

    def add(self, found: Tensor, exact: Expected, unit: Tensor, sizes: _Sizes, scratch: Tensor) -> None:
        """Compare some rows; `unit` is one unit in the last place for each element, `scratch` a buffer of their shape."""
        off = scratch.copy_(found).sub_(exact.value).abs_()
        limit, max_abs = exact.limit, float(off.max())
        if isfinite(max_abs):
            self._has_finite = True
        else:
            max_abs = self._set_aside_nonfinite(found, exact, off)
            unit, limit = unit.nan_to_num(nan=1.0), None if limit is None else limit.nan_to_num(nan=1.0)
        self._max_abs = max(self._max_abs, max_abs)
        self._squared_error += float(off.flatten().dot(off.flatten()))
        self._sizes.add(sizes)
        self._error = _worse(self._error, max_abs if limit is None else float(torch.div(off, limit).max()))
        self._ulps = _worse(self._ulps, float(off.div_(unit).max()))

    def _set_aside_nonfinite(self, found: Tensor, exact: Expected, off: Tensor) -> float:
        """Count what is not finite and should be, or the other way round, zero its deviation, and return the largest that is left."""
        finite, value = found.isfinite(), exact.value
        slack = torch.zeros_like(value) if exact.limit is None else exact.limit
        # A value that rounding may carry past the range of the dtype may be an infinity of its sign there.
        may_overflow = found.isinf() & (found.sign() == value.sign()) & (value.abs() + slack >= torch.finfo(found.dtype).max)
        self._nonfinite += int((~finite & value.isfinite() & ~may_overflow).sum())
        as_exact = (found.isnan() & value.isnan()) | (found == value)
        self._swallowed += int((~value.isfinite() & ~as_exact).sum())
        self._has_finite |= bool(finite.any())
        return float(off.nan_to_num_(nan=0.0, posinf=0.0).max())

    def accuracy(self) -> Accuracy:
        is_judged = self.fault is None
        has_figures = is_judged and self._has_finite
        return Accuracy(
            tensor=self.name,
            dtype="unknown" if self._dtype is None else dtype_name(self._dtype),
            error=self._error if has_figures else None,
            tolerance=self._tolerance,
            max_abs=self._max_abs if has_figures else None,
            ulps=self._ulps if has_figures else None,
            nonfinite=self._nonfinite,
            passed=is_judged and self._nonfinite == self._swallowed == 0 and self._error <= self._tolerance,
            fault=self.fault,
            relative=self._relative() if has_figures else None,
            swallowed=self._swallowed,
        )

    def _relative(self) -> float | None:
        if self._squared_error == 0:
            return 0.0
        if self._sizes.squared_limit >= self._sizes.squared:
            return None
        ratio = sqrt(self._squared_error / self._sizes.squared)
        return ratio if isfinite(ratio) else None


@dataclass(slots=True)
class _Sizes:
    """Add up the squares of exact values and of their limits, those that are finite."""

    squared: float = 0.0
    squared_limit: float = 0.0

    @classmethod
    def of(cls, exact: Expected) -> _Sizes:
        return cls(_squared_norm(exact.value), 0.0 if exact.limit is None else _squared_norm(exact.limit))

    def add(self, other: _Sizes) -> None:
        self.squared += other.squared
        self.squared_limit += other.squared_limit


def _squared_norm(values: Tensor) -> float:
    flat = values.flatten()
    total = float(flat.dot(flat))
    if not isfinite(total):
        flat = flat.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        total = float(flat.dot(flat))
    return total


def _worse(worst: float, value: float) -> float:
    """Return the larger of the two; what is not finite counts as the largest number, which a record can hold."""
    return max(worst, value) if value <= float_info.max else float_info.max


def _units(expected: Expected, dtype: torch.dtype, out: Tensor) -> Tensor:
    """Return one unit in the last place of dtype for each element, at its value or at the root mean square of its row; see `check`."""
    exact = expected.value
    info = torch.finfo(dtype)
    row_norm = torch.linalg.vector_norm(exact, dim=1, keepdim=True)
    if not row_norm.isfinite().all():
        row_norm = torch.linalg.vector_norm(exact.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0), dim=1, keepdim=True)
    row_size = row_norm.div_(sqrt(exact.shape[1])).clamp_(min=info.tiny)
    magnitude = torch.maximum(torch.abs(exact, out=out), row_size, out=out)
    uncertain = None if expected.limit is None else expected.limit > magnitude
    # Clearing the mantissa leaves the power of two below: the exponent bits of a float64 are its highest 11 after the sign.
    magnitude.view(torch.int64).bitwise_and_(0x7FF << 52)
    magnitude.mul_(info.eps)
    return magnitude if uncertain is None or expected.limit is None else torch.where(uncertain, expected.limit, magnitude, out=out)


def _compare(
    tallies: Mapping[str, Mapping[str, _Tally]], expected: Mapping[str, Expected], chunk: slice, buffers: dict[str, Tensor]
) -> None:
    """Compare one chunk of rows of every provider."""
    for name, exact in expected.items():
        judged = [(named[name], found) for named in tallies.values() if (found := named[name].rows) is not None]
        if not judged or exact.value.numel() == 0:
            continue
        for use in ("units", "scratch"):
            if use not in buffers:
                buffers[use] = torch.empty_like(exact.value)
        units = _units(exact, judged[0][1].dtype, buffers["units"][: len(exact.value)])
        sizes = _Sizes.of(exact)
        for tally, found in judged:
            tally.add(found[chunk], exact, units, sizes, buffers["scratch"][: len(exact.value)])
