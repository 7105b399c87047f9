"""How far a network's output and gradients may be from those of the same network in float64.

The exact value is the network in float64 with its norms by `eager`. What rounding explains no formula tells for a whole network, so the
network itself tells it: as built, norms of its own classes, in the dtype of the case, it strays from its float64 self by some
relative error, of the output, and of the gradients in the worst of all parameters. An arm may stray by `FACTOR` times that. Its norms
round as often as the network's own, in another order: the arms of the 13 networks at `tiny` by eager and aten strayed by 0.81 to 1.11
times as much (float32, CPU, both passes), and by up to about twice as much in 16 bits, where ATen's LayerNorm sums the gradients of
its parameters in 16 bits. A norm without its weight or its centring is off by thousands of times in float32.

A gradient's error is the norm of its deviation over the norm of the exact gradient plus what an average vector of its length has: some
gradients are zero but for rounding, those of a bias in front of a softmax over keys among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from ..models.networks import Network
from ..oracle.problem import dtype_name
from ..records.record import Accuracy

__all__ = ["Stray", "judge", "outcome", "output_alone", "stray"]

FACTOR = 4.0

FLOOR = 2.0
"""Half units in the last place that an arm may be off anyhow: a network that strays by less has hardly rounded at all."""

_OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Hold relative errors against float64: of the output, and of the worst gradient (0 in a pass without)."""

    output: float
    gradient: float


def outcome(found: Network, model: nn.Module, batch: dict[str, Tensor], *, has_backward: bool) -> dict[str, Tensor | None]:
    """Return the output of a network and, with a backward, the gradient of its loss in every parameter by the parameter's name."""
    with torch.set_grad_enabled(has_backward):
        values = output_alone(found.outputs(model, batch))
        if has_backward:
            named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
            gradients = torch.autograd.grad(found.loss(model, batch), tuple(named.values()), allow_unused=True)
            values |= dict(zip(named, gradients, strict=True))
    return values


def output_alone(output: Tensor) -> dict[str, Tensor | None]:
    """Return the outcome of a pass without gradients that gave this output."""
    return {_OUTPUT: output.detach()}


def stray(values: Mapping[str, Tensor | None], exact: Mapping[str, Tensor | None]) -> Stray:
    """Return how far the values of a network are from the exact ones; infinite where one is missing or not finite."""
    errors = _errors(values, exact)
    return Stray(output=errors[_OUTPUT], gradient=max((error for name, error in errors.items() if name != _OUTPUT), default=0.0))


def judge(
    values: Mapping[str, Tensor | None], exact: Mapping[str, Tensor | None], plain: Stray, dtype: torch.dtype
) -> tuple[Accuracy, ...]:
    """Return the accuracy of the output and, if there are any, of the gradient that is furthest off; `plain` is the network's own."""
    least = FLOOR * torch.finfo(dtype).eps / 2
    errors = _errors(values, exact)
    judged = [_accuracy(_OUTPUT, values, exact, errors[_OUTPUT], max(FACTOR * plain.output, least))]
    gradients = [name for name in errors if name != _OUTPUT]
    if gradients:
        worst = max(gradients, key=lambda name: errors[name])
        judged.append(_accuracy(worst, values, exact, errors[worst], max(FACTOR * plain.gradient, least), among=len(gradients)))
    return tuple(judged)


def _errors(values: Mapping[str, Tensor | None], exact: Mapping[str, Tensor | None]) -> dict[str, float]:
    gradients = [value for name, value in exact.items() if name != _OUTPUT and value is not None]
    squares = sum(float(value.square().sum()) for value in gradients)
    typical = sqrt(squares / max(1, sum(value.numel() for value in gradients)))
    errors = {}
    for name in dict.fromkeys([*exact, *values]):
        value, wanted = values.get(name), exact.get(name)
        if wanted is None:
            # A gradient of zero and none at all are the same.
            errors[name] = 0.0 if value is None or not value.any() else float("inf")
        elif value is None or value.shape != wanted.shape or not value.isfinite().all():
            errors[name] = float("inf")
        else:
            size = float(wanted.norm()) + (0.0 if name == _OUTPUT else typical * sqrt(wanted.numel()))
            off = float((value.double() - wanted).norm())
            errors[name] = off / size if size else (0.0 if off == 0 else float("inf"))
    return errors


def _accuracy(
    name: str, values: Mapping[str, Tensor | None], exact: Mapping[str, Tensor | None], error: float, tolerance: float, among: int = 0
) -> Accuracy:
    value, wanted = values.get(name), exact.get(name)
    known = value is not None and wanted is not None and value.shape == wanted.shape
    off = (value.double() - wanted).abs() if known and value is not None and wanted is not None else torch.zeros(0)
    is_finite = bool(off.isfinite().all())
    size = float(wanted.norm()) if wanted is not None else 0.0
    return Accuracy(
        tensor=f"gradient of {name}, the worst of {among}" if among else name,
        dtype="unknown" if value is None else dtype_name(value.dtype),
        error=error if error != float("inf") else None,
        tolerance=tolerance,
        max_abs=float(off.max()) if known and is_finite and off.numel() else None,
        ulps=None,
        nonfinite=int((~value.isfinite()).sum()) if value is not None else 0,
        passed=error <= tolerance,
        fault=None if known else "is missing or has another shape",
        relative=float(off.norm()) / size if known and is_finite and size else None,
    )
