"""Train a toy network on the rule and write down what happens: losses, trunk, gradients, and the step at which it breaks."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, nan

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .observation import Observation, Trial
from .rule import VOCABULARY, sequences
from .toy import ToyNetwork

__all__ = ["BATCH", "LOGGED", "STEPS", "observe_training"]

STEPS, BATCH, VALIDATION = 3000, 32, 512
LOGGED = (0, 100, 200, 300, 500, 1000, 1500, 2000, 2500, 3000)
"""Steps after which the validation loss is taken, as far as they are reached; the last step is taken too."""
_VALIDATION_SEED = 10_000
_JUMP = 1e3
"""The size of the trunk whose first crossing is written down."""

Optimiser = Callable[[nn.Module, float], torch.optim.Optimizer]


def _adam(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), rate)


def _sgd(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), rate)


OPTIMISERS: dict[str, Optimiser] = {"adam": _adam, "sgd": _sgd}


def observe_training(
    study: str,
    trial: Trial,
    build: Callable[[], ToyNetwork],
    *,
    steps: int,
    rate: float,
    warmup: int = 0,
    optimiser: str = "adam",
) -> Observation:
    """Return what training did: validation losses, the size of the trunk, and the first step whose loss is not finite.

    A seed decides the initial weights and, by itself, the batches, so that all settings of a seed see the same data; validation data are
    the same for all. `warmup` steps raise the rate linearly. Training ends at a loss that is not finite: `first_nonfinite` is its step,
    infinite where there was none, and later losses are NaN. A gradient that is not finite shows in the next loss.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        model = build()
    batches = torch.Generator().manual_seed(1_000_003 * (trial.seed + 1))
    held_out = sequences(VALIDATION, torch.Generator().manual_seed(_VALIDATION_SEED))
    stepper = OPTIMISERS[optimiser](model, rate)
    logged = sorted({step for step in LOGGED if step <= steps} | {steps})
    losses: list[tuple[float, float]] = []
    exits: list[tuple[float, float]] = []
    first_nonfinite, first_above, largest = inf, inf, 0.0
    variances = {}
    for step in range(steps + 1):
        if step in logged:
            with torch.no_grad():
                losses.append((step, float(_loss(model, held_out))))
                exits.append((step, float(model.last_exit)))
            if not isfinite(losses[-1][1]):
                first_nonfinite = step
                break
        if step == steps:
            break
        stepper.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / warmup) if warmup else rate
        loss = _loss(model, sequences(BATCH, batches))
        size = float(model.last_exit)
        largest = max(largest, size) if isfinite(size) else inf
        if first_above == inf and not size < _JUMP:
            first_above = step
        if not isfinite(float(loss.detach())):
            first_nonfinite = step
            break
        stepper.zero_grad()
        torch.autograd.backward(loss)
        if step in (0, steps - 1):
            variances["start" if step == 0 else "end"] = _variance(model)
        stepper.step()
    values = {f"loss_{step}": nan for step in logged} | {f"loss_{int(step)}": loss for step, loss in losses}
    values |= {
        "final_loss": values[f"loss_{steps}"],
        "first_nonfinite": float(first_nonfinite),
        "first_above_1e3": float(first_above),
        "largest_exit_norm": largest,
        "exit_norm_0": exits[0][1],
        "exit_norm_end": exits[-1][1],
        "gradient_variance_start": variances.get("start", nan),
        "gradient_variance_end": variances.get("end", nan),
    }
    return Observation.of(study, trial, values=values, curves={"validation loss": losses, "exit norm": exits})


def _loss(model: nn.Module, tokens: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def _variance(model: nn.Module) -> float:
    """Return the variance of all entries of all gradients together."""
    return float(torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None]).double().var(correction=0))
