"""What a module computes, found by running a copy of it on made-up inputs: LayerNorm, RMSNorm, or why it is neither.

The copy has the module's class and attributes and parameters of its own. Three questions are put to it:

    its eps      rows so small (1e-8) that eps alone sets their scale; asked in float64 and in float32
    its formula  rows of a mean and a spread between 0.3 and 30, and rows of 1 down to 1e-7; weight and bias at random
    its rounding bfloat16 rows: the weight multiplied before x-hat is rounded, or after (`Convention`)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..case import Convention, Norm

__all__ = ["Behaviour", "NoNorm", "probe"]

TINY = 1e-8
ORDINARY = ((1.0, 0.0), (1.0, 3.0), (30.0, -10.0), (0.3, 0.0), (5.0, 20.0), (1.0, -2.0))
"""Spread and mean of each row."""
LADDER = tuple((10.0**-power, 0.0) for power in range(8))

EXACT = 1e-5
"""How far an element may be off, in parts of the largest of its row. Seen of classes that compute in float32: 1e-6. The mistake that is
nearest to a norm, an unbiased variance, is off by 1 / (2 * cols): 4e-5 at 12288 columns."""

NEAR = 0.05
"""Off by no more than this, a module is told of as one that looks like a norm, whatever its class is called."""

SAME_EPS = 1e-3
DETERMINED = 1e-2
"""An eps below this part of the mean square of the smallest rows is none."""

ROUNDED = 4096
"""Elements that are compared bit by bit: of two conventions the wrong one misses a quarter of them."""
ALIKE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Say what a module computes. `eps` None is the machine epsilon of the computation; names are those of its parameters."""

    norm: Norm
    normalized_shape: tuple[int, ...]
    eps: float | None
    convention: Convention
    weight_name: str | None
    bias_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guess:
    """A formula that the module may compute: which norm, of which parameters, and by the weight or by 1 + weight."""

    norm: Norm
    weight_name: str | None
    bias_name: str | None
    adds_one: bool

    def centred(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if self.norm is Norm.LAYER_NORM else x

    def expected(self, x: Tensor, parameters: dict[str, Tensor], eps: float) -> Tensor:
        """Return the norm of rows (rows, cols) in float64."""
        h = self.centred(x)
        return self.scaled(h * (h.square().mean(-1, keepdim=True) + eps).rsqrt(), parameters)

    def scaled(self, xhat: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        y = xhat
        if self.weight_name:
            y = y * self.factor(parameters)
        if self.bias_name:
            y = y + parameters[self.bias_name]
        return y

    def factor(self, parameters: dict[str, Tensor]) -> Tensor:
        assert self.weight_name is not None
        return parameters[self.weight_name] + 1.0 if self.adds_one else parameters[self.weight_name]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNorm:
    """Say why a module is neither LayerNorm nor RMSNorm, and whether it comes near one."""

    reason: str
    is_near: bool


class _NoNorm(Exception):
    """Leave the examination with the reason, and whether what was seen is near a norm."""

    def __init__(self, reason: str, *, is_near: bool = False) -> None:
        super().__init__(reason)
        self.answer = NoNorm(reason=reason, is_near=is_near)


def probe(module: nn.Module) -> Behaviour | NoNorm:
    """Return what a module computes, or why it is no norm. The module and torch's generators stay as they are."""
    try:
        subject = _Subject(module)
        with (
            torch.no_grad(),
            torch.random.fork_rng(devices=[subject.device] if subject.device.type == "cuda" else []),
            torch.autocast(subject.device.type, enabled=False),
        ):
            return _examine(subject)
    except _NoNorm as reason:
        return reason.answer


class _Subject:
    """A module's stand-in: its class and attributes, tensors of its own, none of its hooks."""

    def __init__(self, module: nn.Module) -> None:
        if "forward" in vars(module):
            raise _NoNorm("its forward was replaced on this one instance, by what cannot be told")
        self._module = module
        self.names = [name for name, _ in module.named_parameters(recurse=False)]
        self.shape = _shape(module)
        self.cols = prod(self.shape)
        self.device = next((parameter.device for parameter in module.parameters(recurse=False)), torch.device("cpu"))
        if self.device.type == "meta":
            raise _NoNorm("its parameters are on the meta device: load it first")
        if self.cols < 2:
            raise _NoNorm("a single value is no row to be normed")
        self._generator = torch.Generator().manual_seed(0)
        self.drawn = {name: self._draw(self.cols) * 0.5 + 1.0 for name in self.names}

    def _draw(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self._generator, dtype=torch.float64).to(self.device)

    def rows(self, kinds: tuple[tuple[float, float], ...]) -> Tensor:
        """Return a row of `cols` float64 values for each (spread, mean)."""
        return torch.stack([self._draw(self.cols) * spread + mean for spread, mean in kinds])

    def declared_eps(self) -> list[float]:
        """Return the numbers among its attributes that are called an eps."""
        return [float(value) for name, value in vars(self._module).items() if "eps" in name.lower() and isinstance(value, float | int)]

    def __call__(self, x: Tensor, parameters: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
        """Return what the module makes of rows (rows, cols), computed in `dtype`, as float64."""
        stand_in = self._stand_in(parameters, dtype)
        given = x.to(dtype).reshape(x.shape[0] // 2, 2, *self.shape)
        try:
            y = stand_in.forward(given)
        except Exception as error:
            raise _NoNorm(f"it cannot be called on one tensor {tuple(given.shape)}: {type(error).__name__}: {error}") from None
        if not isinstance(y, Tensor) or y.shape != given.shape:
            raise _NoNorm("what it returns is not one tensor of the shape of its input")
        return y.reshape(x.shape).double()

    def _stand_in(self, parameters: dict[str, Tensor], dtype: torch.dtype) -> Any:
        stand_in = copy.copy(self._module)
        own = vars(stand_in)
        for name, value in list(own.items()):
            if "hooks" in name or isinstance(value, list | dict | set):
                own[name] = copy.copy(value)
            if "hooks" in name:
                own[name].clear()
        for name, parameter in parameters.items():
            stand_in._parameters[name] = nn.Parameter(parameter.reshape(self.shape).to(dtype), requires_grad=False)
        for name, buffer in stand_in._buffers.items():
            if buffer is not None:
                stand_in._buffers[name] = buffer.clone()
        return stand_in


def _shape(module: nn.Module) -> tuple[int, ...]:
    for parameter in module.parameters(recurse=False):
        return tuple(parameter.shape)
    declared = getattr(module, "normalized_shape", None)
    if isinstance(declared, int):
        return (declared,)
    if isinstance(declared, tuple | list | torch.Size) and declared:
        return tuple(declared)
    raise _NoNorm("neither a parameter nor an attribute normalized_shape tells how wide it is")


def _guesses(names: list[str]) -> Iterator[_Guess]:
    for norm in Norm:
        for first in permutations(names, len(names)):
            weight, bias = (*first, None, None)[:2]
            for adds_one in (False, True) if weight else (False,):
                yield _Guess(norm=norm, weight_name=weight, bias_name=bias, adds_one=adds_one)


def _examine(subject: _Subject) -> Behaviour:
    ordinary, ladder = subject.rows(ORDINARY), subject.rows(LADDER)
    tiny = subject.rows(((TINY, 0.0), (TINY, 0.0)))
    y = subject(ordinary, subject.drawn, torch.float64)
    nearest = float("inf")
    for guess in _guesses(subject.names):
        flat = subject.drawn if guess.bias_name is None else subject.drawn | {guess.bias_name: torch.zeros_like(ordinary[0])}
        wide, narrow = (_estimate_eps(guess, tiny, subject(tiny, flat, dtype), flat) for dtype in (torch.float64, torch.float32))
        error = _error(y, guess.expected(ordinary, subject.drawn, wide))
        nearest = min(nearest, error)
        if error > EXACT:
            continue
        if _error(subject(ladder, flat, torch.float64), guess.expected(ladder, flat, wide)) > EXACT:
            raise _NoNorm(
                f"it is {guess.norm.value} on ordinary values and not on small ones: its eps does not stand inside the root", is_near=True
            )
        if guess.adds_one and guess.norm is Norm.LAYER_NORM:
            raise _NoNorm("it is layer_norm with a factor of 1 + weight, which no provider computes")
        return Behaviour(
            norm=guess.norm,
            normalized_shape=subject.shape,
            eps=_settled_eps(wide, narrow, subject.declared_eps()),
            convention=_convention(subject, guess),
            weight_name=guess.weight_name,
            bias_name=guess.bias_name,
        )
    raise _NoNorm(
        f"it computes neither layer_norm nor rms_norm: off by at least {nearest:.2g} of a row's largest element", is_near=nearest < NEAR
    )


def _error(y: Tensor, expected: Tensor) -> float:
    """Return the largest deviation in parts of the largest element of its row; infinite where y is not finite."""
    error = ((y - expected).abs().amax(-1) / expected.abs().amax(-1)).max().item()
    return error if error == error else float("inf")


def _estimate_eps(guess: _Guess, x: Tensor, y: Tensor, parameters: dict[str, Tensor]) -> float:
    """Return the eps that explains by how much rows are scaled: y / weight = rstd * h gives rstd, and eps = 1 / rstd^2 - mean(h^2)."""
    h = guess.centred(x)
    xhat = y / guess.factor(parameters) if guess.weight_name else y
    rstd = (xhat * h).sum(-1) / h.square().sum(-1)
    mean_square = h.square().mean(-1)
    eps = (rstd.reciprocal().square() - mean_square).mean().item()
    return eps if eps > DETERMINED * mean_square.mean().item() else 0.0


def _settled_eps(wide: float, narrow: float, declared: list[float]) -> float | None:
    """Return the eps of both dtypes: as declared where an attribute has it, else to 5 digits; None where it is the epsilon of the dtype."""

    def same(one: float, other: float) -> bool:
        return abs(one - other) <= SAME_EPS * max(abs(one), abs(other))

    if not same(wide, narrow):
        if same(wide, torch.finfo(torch.float64).eps) and same(narrow, torch.finfo(torch.float32).eps):
            return None
        raise _NoNorm(f"its eps changes with the dtype: {wide:.3g} in float64, {narrow:.3g} in float32")
    return next((value for value in declared if same(value, wide)), float(f"{wide:.5g}"))


def _convention(subject: _Subject, guess: _Guess) -> Convention:
    """Return where an RMSNorm rounds in bfloat16: the convention that more elements agree with; torch where neither does."""
    if guess.adds_one:
        return Convention.GEMMA
    if guess.norm is Norm.LAYER_NORM or guess.weight_name is None:
        return Convention.TORCH
    low = torch.bfloat16
    count = 2 * max(1, -(-ROUNDED // (2 * subject.cols)))
    x = subject.rows(((1.0, 0.0),) * count).to(low).double()
    parameters = {name: value.to(low).double() for name, value in subject.drawn.items()}
    try:
        y = subject(x, parameters, low)
    except _NoNorm:
        return Convention.TORCH
    # An eps of 1e-5 moves no element of such rows across more than one rounding, and those it moves are few.
    h = guess.centred(x)
    xhat = h * h.square().mean(-1, keepdim=True).rsqrt()
    rounded = {
        Convention.TORCH: guess.scaled(xhat, parameters).to(low).double(),
        Convention.LLAMA: guess.scaled(xhat.to(low).double(), parameters).to(low).double(),
    }
    shares = {convention: (y == value).double().mean().item() for convention, value in rounded.items()}
    best = max(shares, key=lambda convention: shares[convention])
    return best if shares[best] >= ALIKE else Convention.TORCH
