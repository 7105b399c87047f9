"""Tasks of the tiers of whole networks beside their blocks: the check of a network's arms, and what its norms are called with."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from ..cases.case import Case, DType, Norm
from ..cases.conditions import Pages
from ..cases.model_case import ModelCase
from ..cases.throughput_case import Mode, ThroughputCase
from ..models.networks import network
from ..models.recipe import in_dtype
from ..oracle.problem import torch_dtype
from ..records.measurement import Memory
from ..records.record import NORM_CALLS, Accuracy, Status
from ..workloads.agreement import Stray, judge, outcome, output_alone, stray
from ..workloads.model import (
    forget_networks,
    norm_calls,
    plain_network,
    split_arm,
    step_of,
    swapped_network,
    without_sharing,
)
from ..workloads.serving import exact_logits, served_logits
from ..workloads.throughput import ThroughputWorkload
from ..workloads.training import autocast_of, recompute_activations
from .checking import Begun, CheckResult, CheckTask
from .memory import held_bytes, peak_bytes, saved_bytes
from .process import failure, first_line, loaded_provider, prepare_process, synchronise

__all__ = ["check_networks", "emit_norm_calls"]


def check_networks(task: CheckTask, emit: Callable[[Any], None]) -> None:
    """Compare every arm's output and gradients with the network in float64; emit a Begun and one CheckResult each."""
    assert not isinstance(task.case, Case), task.case
    device = prepare_process(task.conditions, task.case, Pages.REUSED)
    check = _Check(task, task.case, device)
    for name in task.providers:
        emit(Begun(name))
        emit(check.result(name))
    emit(Begun(None))


def emit_norm_calls(argument: tuple[tuple[ModelCase, ...], str], emit: Callable[[Any], None]) -> None:
    """Emit each case with the cases of the op tier that its network's norms are, and how often each is called in one pass."""
    cases, device = argument
    for case in cases:
        emit((case, norm_calls(case, torch.device(device))))
        forget_networks()


class _Check:
    """Check the arms of one network, one after the other, against references that are computed once.

    Of training and serving the pass is checked that they are made of, on their own batch: a training step's loss and gradients, and
    the logits of tokens that are served, through the cache, against a pass without one.
    """

    def __init__(self, task: CheckTask, case: ModelCase | ThroughputCase, device: torch.device) -> None:
        self._asked = case
        self._seed = task.seed
        self._device = device
        self._network = network(case.network)
        self._case = case if isinstance(case, ModelCase) else case.model_case
        self._autocast = autocast_of(case.autocast if isinstance(case, ThroughputCase) else None, device)
        dtype = torch_dtype(case.dtype)
        self._batch = self._network.batch(case.preset, seed=task.seed, device=device, dtype=dtype, size=case.size)
        self._plain = plain_network(self._case, device)
        self._exact: dict[Norm, dict[str, Tensor | None]] = {}
        self._stray: Stray | None = None

    def result(self, name: str) -> CheckResult:
        norm, provider = split_arm(name)
        try:
            calls = norm_calls(msgspec.structs.replace(self._case, norm=norm), self._device, self._autocast)
            for op_case in calls:
                if refusal := _refusal(provider, op_case, self._device.type):
                    return CheckResult(provider=name, status=refusal[0], reason=refusal[1])
            return self._compare(name, norm, provider, {one.id: count for one, count in calls.items()})
        except Exception as error:
            status, reason = failure(error)
            return CheckResult(provider=name, status=status, reason=reason)

    def _compare(self, name: str, norm: Norm, provider: str, calls: dict[str, int]) -> CheckResult:
        has_backward = self._case.pass_.has_backward
        plain = self._own_stray()
        model = swapped_network(self._plain, norm, provider)
        start = time.perf_counter()
        values = self._outcome(model)
        synchronise(self._device)
        first_call_s = time.perf_counter() - start
        accuracy = judge(values, self._exact_of(norm), plain, torch_dtype(self._narrowest))
        wrong = [one for one in accuracy if not one.passed]
        return CheckResult(
            provider=name,
            status=Status.WRONG if wrong else Status.OK,
            reason="; ".join(map(_describe, wrong)) or None,
            accuracy=accuracy,
            first_call_s=first_call_s,
            memory=None if wrong else self._memory(name, model),
            settings={"grad_mode": "enabled" if has_backward else "no_grad", NORM_CALLS: calls},
        )

    @property
    def _narrowest(self) -> DType:
        """Return the dtype that most of the network computes in."""
        return (self._asked.autocast if isinstance(self._asked, ThroughputCase) else None) or self._asked.dtype

    def _outcome(self, model: nn.Module) -> dict[str, Tensor | None]:
        """Return what a network gives that computes as it does when it is timed."""
        with self._autocast:
            if isinstance(self._asked, ThroughputCase) and self._asked.mode is not Mode.TRAIN:
                return output_alone(served_logits(self._asked, model, self._batch["input_ids"]))
            return outcome(self._network, model, self._batch, has_backward=self._case.pass_.has_backward)

    def _own_stray(self) -> Stray:
        """Return how far the network as it was built is from float64."""
        if self._stray is None:
            self._stray = stray(self._outcome(self._plain), self._exact_of(self._network.norm))
        return self._stray

    def _exact_of(self, norm: Norm) -> dict[str, Tensor | None]:
        if norm not in self._exact:
            wide = swapped_network(without_sharing(self._plain).double(), norm, "eager")
            if isinstance(self._asked, ThroughputCase) and self._asked.mode is not Mode.TRAIN:
                self._exact[norm] = output_alone(exact_logits(self._asked, wide, self._batch["input_ids"]))
            else:
                batch = in_dtype(self._batch, torch.float64)
                self._exact[norm] = outcome(self._network, wide, batch, has_backward=self._case.pass_.has_backward)
        return self._exact[norm]

    def _memory(self, name: str, model: nn.Module) -> Memory:
        """Return the peak of one call above what was there before, and what is kept for backward beside parameters and inputs."""
        try:
            return Memory(peak_bytes=peak_bytes(self._call(name, model), self._device), saved_bytes=self._saved_bytes(model))
        except Exception as error:
            return Memory(reason=f"{type(error).__name__}: {first_line(error)}")

    def _call(self, name: str, model: nn.Module) -> Callable[[], Any]:
        """Return a call as it is timed, of which nothing is the first."""
        if isinstance(self._asked, ThroughputCase):
            call = ThroughputWorkload(self._asked, (name,), self._device).repetition(self._seed).calls[name]
            call()
            return call
        step = step_of(self._network, model, self._batch)
        return step if self._case.pass_.has_backward else lambda: self._network.outputs(model, self._batch)

    def _saved_bytes(self, model: nn.Module) -> int | None:
        if not self._case.pass_.has_backward:
            return None

        def loss() -> Tensor:
            with self._autocast:
                return self._network.loss(model, self._batch)

        if isinstance(self._asked, ThroughputCase) and self._asked.checkpointing:
            model = copy.deepcopy(model)
            recompute_activations(model, self._asked.label)
            return held_bytes(loss, self._device)
        return saved_bytes(loss, (*model.parameters(), *model.buffers(), *self._batch.values()))


def _refusal(provider: str, case: Any, device: str) -> tuple[Status, str] | None:
    """Return how and why a provider cannot be an arm of a network that calls a norm so, or None."""
    found = loaded_provider(provider)
    if reason := found.unsupported(case, device):
        return Status.UNSUPPORTED, f"{case.id}: {reason}"
    if found.definition(case).is_another_function:
        return Status.UNSUPPORTED, f"it computes {found.definition(case).text}: another network"
    if found.is_interpreted(case, device):
        return Status.SKIPPED, "a Triton kernel, and this device is not a GPU; the op tier and `normbench check` say whether it is right"
    return None


def _describe(accuracy: Accuracy) -> str:
    if accuracy.fault or accuracy.error is None:
        return f"{accuracy.tensor} {accuracy.fault or 'has values that are not finite'}"
    return (
        f"{accuracy.tensor} is off by {accuracy.error:.3g} of its size, {accuracy.error / accuracy.tolerance:.3g} times what the network's "
        "own rounding explains"
    )
