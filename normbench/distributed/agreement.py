"""The task that checks a step of several ranks before any is timed: what they exchange is right, and they stay the same network.

The gradients that the optimiser gets, averaged over the ranks' batches, are compared with those of one network in float64 on all of
the batches, and may stray as far as those of the network as it was built; see `workloads.agreement`. AdamW's first step hardly
depends on the size of a gradient, so the parameters after it say nothing of a missing average: they are compared between the ranks,
bit by bit, and with one process that took the step on all of the batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..cases.throughput_case import ThroughputCase
from ..measure.checking import CheckTask
from ..models.networks import network
from ..models.recipe import Batch, in_dtype
from ..oracle.problem import dtype_name, torch_dtype
from ..records.record import Accuracy
from ..workloads.agreement import Stray, judge, outcome, stray
from ..workloads.model import company_case, plain_network, split_arm, swapped_network, without_sharing
from ..workloads.training import LEARNING_RATE, TrainingStep, autocast_of
from .session import Seat, Session, guarded, joined, prepare_rank
from .training import parallelise, rank_batches, trained_network, whole

__all__ = ["Agreement", "AgreementTask", "agree", "compare_parameters", "digest"]

_OUTPUT = "output"

_STEP = LEARNING_RATE * 1.01
"""The most that AdamW's first step moves a parameter, weight decay included: its sign is the gradient's, its size no one's."""


class AgreementTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask one rank to take a step of every arm in `check.providers` with the others."""

    seat: Seat
    check: CheckTask


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Say what one rank has after a step of an arm: its parameters' digest and, on rank 0, how right gradients and parameters are."""

    arm: str
    digest: str
    accuracy: tuple[Accuracy, ...] = ()


def agree(task: AgreementTask, emit: Callable[[Any], None]) -> None:
    """Take a step of every arm with the other ranks and emit an Agreement each. Raises as `take_turns` does."""

    def work() -> None:
        device = prepare_rank(task.seat, task.check.conditions, task.check.case)
        with joined(task.seat, device) as session:
            steps = _Steps(task, session)
            for arm in task.check.providers:
                emit(steps.agreement(arm))
                session.position.alive()
            # Rank 0 compares longer than the others: nobody leaves before it has.
            session.wait()

    guarded(work)


def digest(parameters: Mapping[str, Tensor]) -> str:
    """Return a digest of the bits of all parameters."""
    found = hashlib.sha256()
    for name, value in parameters.items():
        found.update(name.encode())
        found.update(value.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def compare_parameters(values: Mapping[str, Tensor], alone: Mapping[str, Tensor]) -> Accuracy:
    """Return how far parameters after one step are from those of one process on the same batches; `error` is the largest deviation.

    Where a gradient is zero but for rounding its sign is chance, and so is the direction of the step: two steps apart are allowed,
    and a unit in the last place of the largest parameter.
    """
    name, error = max(((name, float((values[name].double() - alone[name].double()).abs().max())) for name in alone), key=lambda one: one[1])
    largest = max(float(value.abs().max()) for value in alone.values())
    dtype = next(iter(alone.values())).dtype
    return Accuracy(
        tensor=f"{name} after one step, the worst of {len(alone)} parameters",
        dtype=dtype_name(dtype),
        error=error,
        tolerance=2 * _STEP + torch.finfo(dtype).eps * largest,
        max_abs=error,
        ulps=None,
        nonfinite=0,
        passed=error <= 2 * _STEP + torch.finfo(dtype).eps * largest,
    )


class _Steps:
    def __init__(self, task: AgreementTask, session: Session) -> None:
        case = task.check.case
        assert isinstance(case, ThroughputCase), case
        self._session = session
        self._seat = task.seat
        self._found = network(case.network)
        self._case = company_case(case, self._found)
        self._batches = [
            rank_batches(self._case, self._found, session.device, seed=task.check.seed, rank=rank, size=task.seat.size)
            for rank in range(task.seat.size)
        ]
        self._exact: dict[str, dict[str, Tensor | None]] = {}

    def agreement(self, arm: str) -> Agreement:
        position = self._session.position
        self._session.wait()
        position.tell(f"a step of {arm} to be checked")
        own = self._batches[self._seat.rank]
        model = trained_network(self._case, self._found, arm, own[0], self._session.device)
        gradients = _gradients_of_a_step(self._step(parallelise(model, self._seat.parallel), own), model)
        parameters = {name: whole(value) for name, value in model.named_parameters()}
        accuracy: tuple[Accuracy, ...] = ()
        if self._session.is_first:
            accuracy = (self._judge(arm, gradients), compare_parameters(parameters, self._alone(arm)))
        return Agreement(arm=arm, digest=digest(parameters), accuracy=accuracy)

    def _step(self, model: nn.Module, batches: Sequence[Batch]) -> TrainingStep:
        return TrainingStep(self._found, model, batches, autocast=autocast_of(self._case.autocast, self._session.device))

    @property
    def _all(self) -> list[Batch]:
        return [batch for batches in self._batches for batch in batches]

    def _alone(self, arm: str) -> dict[str, Tensor]:
        """Return the parameters after one process took the step on all batches."""
        model = trained_network(self._case, self._found, arm, self._all[0], self._session.device)
        self._step(model, self._all)()
        return {name: value.detach() for name, value in model.named_parameters()}

    def _judge(self, arm: str, gradients: dict[str, Tensor | None]) -> Accuracy:
        norm, _ = split_arm(arm)
        dtype = torch_dtype(self._case.autocast or self._case.dtype)
        found = judge(gradients, self._exact_of(norm.value), self._own_stray(), dtype)[-1]
        return msgspec.structs.replace(found, tensor=f"{found.tensor}, averaged over {self._seat.size} ranks")

    def _exact_of(self, norm: str) -> dict[str, Tensor | None]:
        if norm not in self._exact:
            plain = plain_network(self._case.model_case, self._session.device)
            wide = swapped_network(without_sharing(plain).double(), split_arm(norm)[0], "eager")
            self._exact[norm] = self._averaged(wide, [in_dtype(batch, torch.float64) for batch in self._all])
        return self._exact[norm]

    def _own_stray(self) -> Stray:
        """Return how far the network as it was built is from float64 on the same batches."""
        plain = plain_network(self._case.model_case, self._session.device)
        with autocast_of(self._case.autocast, self._session.device):
            values = self._averaged(plain, self._all)
        return stray(values, self._exact_of(self._found.norm.value))

    def _averaged(self, model: nn.Module, batches: Sequence[Batch]) -> dict[str, Tensor | None]:
        """Return the gradients of the mean loss over batches of one size; the output of none of them is asked for."""
        total: dict[str, Tensor | None] = {}
        for batch in batches:
            for name, gradient in outcome(self._found, model, batch, has_backward=True).items():
                before = total.get(name)
                total[name] = gradient if before is None or gradient is None else before + gradient
        averaged = {name: None if value is None else value / len(batches) for name, value in total.items()}
        return averaged | {_OUTPUT: None}


def _gradients_of_a_step(step: Callable[[], Any], model: nn.Module) -> dict[str, Tensor | None]:
    """Take a step and return the gradients that its optimiser was given, whole, by the name of the parameter."""
    seen: dict[str, Tensor | None] = {_OUTPUT: None}

    def keep(*_: Any) -> None:
        for name, parameter in model.named_parameters():
            seen[name] = None if parameter.grad is None else whole(parameter.grad).clone()

    handle = register_optimizer_step_pre_hook(keep)
    try:
        step()
    finally:
        handle.remove()
    return seen
