"""What a module computes, found by running a copy of it on made-up inputs: LayerNorm, RMSNorm, or why it is neither.

The copy has the module's class and attributes and parameters of its own. These questions are put to it:

    its eps       rows so small (1e-8) that eps alone sets their scale; asked in float64 and in float32
    its formula   rows of a mean and a spread between 0.3 and 30, and rows of 1 down to 1e-12; weight and bias at random
    its guard     rows of 0, where no eps was seen: they must be divided by 0
    its constancy the same rows within two dimensions and within three, in training and in evaluation
    its rounding  bfloat16 rows: the weight multiplied before x-hat is rounded, or after (`Convention`)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import prod

import torch
from torch import Tensor, nn

from ..cases.case import Convention, Norm
from ..oracle.problem import dtype_name
from .arguments import further_inputs
from .stand_in import NoNorm, NotANorm, StandIn

__all__ = ["Behaviour", "probe"]

TINY = 1e-8
ORDINARY = ((1.0, 0.0), (1.0, 3.0), (30.0, -10.0), (0.3, 0.0), (5.0, 20.0), (1.0, -2.0))
"""Spread and mean of each row."""
LADDER = tuple((10.0**-power, 0.0) for power in (*range(8), 10, 12))
"""The smallest can be squared in float32, which many classes compute in."""
DEEP = (1, 2, 2)
"""Dimensions before those of a row, for 4 rows."""

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


def probe(module: nn.Module) -> Behaviour | NoNorm:
    """Return what a module computes, or why it is no norm. The module and torch's generators stay as they are."""
    try:
        subject = StandIn(module)
        with (
            torch.no_grad(),
            torch.random.fork_rng(devices=[subject.device] if subject.device.type == "cuda" else []),
            torch.autocast(subject.device.type, enabled=False),
        ):
            found = _examine(subject)
            if others := further_inputs(module):
                raise NotANorm(f"it takes a second input {others[0]!r}", is_near=True)
            return found
    except NotANorm as reason:
        return reason.answer


def _guesses(names: list[str]) -> Iterator[_Guess]:
    for norm in Norm:
        for first in permutations(names, len(names)):
            weight, bias = (*first, None, None)[:2]
            for adds_one in (False, True) if weight else (False,):
                yield _Guess(norm=norm, weight_name=weight, bias_name=bias, adds_one=adds_one)


def _examine(subject: StandIn) -> Behaviour:
    ordinary, ladder = subject.rows(ORDINARY), subject.rows(LADDER)
    tiny, nought = subject.rows(((TINY, 0.0),) * 2), subject.rows(((0.0, 0.0),) * 2)
    y = subject(ordinary, subject.drawn, torch.float64)
    nearest = float("inf")
    for guess in _guesses(subject.names):
        flat = subject.drawn if guess.bias_name is None else subject.drawn | {guess.bias_name: torch.zeros_like(ordinary[0])}
        wide, narrow = (_estimate_eps(guess, tiny, subject(tiny, flat, dtype), flat) for dtype in (torch.float64, torch.float32))
        error = _error(y, guess.expected(ordinary, subject.drawn, wide))
        nearest = min(nearest, error)
        if error > EXACT:
            continue
        is_off = _error(subject(ladder, flat, torch.float64), guess.expected(ladder, flat, wide)) > EXACT
        if is_off and wide:
            raise NotANorm(
                f"it is {guess.norm.value} on ordinary values and not on small ones: its eps does not stand inside the root", is_near=True
            )
        if is_off or (not wide and subject(nought, flat, torch.float64).isfinite().any()):
            raise NotANorm(f"it guards against zero in another way than by an eps of {DETERMINED * TINY**2:.0e} or more", is_near=True)
        _require_constancy(subject, guess, ordinary, wide)
        if guess.adds_one and guess.norm is Norm.LAYER_NORM:
            raise NotANorm("it is layer_norm with a factor of 1 + weight, which no provider computes")
        return Behaviour(
            norm=guess.norm,
            normalized_shape=subject.shape,
            eps=_settled_eps(wide, narrow, subject.declared_eps()),
            convention=_convention(subject, guess),
            weight_name=guess.weight_name,
            bias_name=guess.bias_name,
        )
    raise NotANorm(
        f"it computes neither layer_norm nor rms_norm: off by at least {nearest:.2g} of a row's largest element", is_near=nearest < NEAR
    )


def _require_constancy(subject: StandIn, guess: _Guess, x: Tensor, eps: float) -> None:
    """Raise NotANorm where a module that is a norm of (rows, 2, …) is not one of other dimensions or in another mode, or casts."""
    rows = x[: prod(DEEP)]
    expected = guess.expected(rows, subject.drawn, eps)
    mode = "evaluation" if subject.is_training else "training"
    for where, is_training in (("with a dimension more", subject.is_training), (f"in {mode}", not subject.is_training)):
        why = f"it is {guess.norm.value}, but not {where}"
        try:
            y = subject(rows, subject.drawn, torch.float64, leading=DEEP, is_training=is_training)
        except NotANorm as reason:
            raise NotANorm(f"{why}: {reason}", is_near=True) from None
        if (error := _error(y, expected)) > EXACT:
            raise NotANorm(f"{why}: off by {error:.2g} of a row's largest element", is_near=True)
    try:
        returned = subject.raw(rows, subject.drawn, torch.bfloat16).dtype
    except NotANorm:
        return
    if returned != torch.bfloat16:
        raise NotANorm(f"it is {guess.norm.value}, but returns {dtype_name(returned)} for bfloat16", is_near=True)


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
        raise NotANorm(f"its eps changes with the dtype: {wide:.3g} in float64, {narrow:.3g} in float32")
    return next((value for value in declared if same(value, wide)), float(f"{wide:.5g}"))


def _convention(subject: StandIn, guess: _Guess) -> Convention:
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
    except NotANorm:
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
