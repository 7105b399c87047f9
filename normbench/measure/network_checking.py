"""Tasks of the model tier beside its blocks: the check of a network's arms, and what its norms are called with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..case import Norm, Pages
from ..model_case import ModelCase
from ..models.networks import network
from ..problem import torch_dtype
from ..record import NORM_CALLS, Accuracy, Memory, Status
from ..workloads.agreement import Stray, judge, outcome, stray
from ..workloads.model import (
    forget_networks,
    norm_calls,
    plain_network,
    split_arm,
    step_of,
    swapped_network,
    without_sharing,
)
from .checking import CheckResult, CheckTask
from .memory import peak_bytes, saved_bytes
from .process import first_line, is_out_of_memory, loaded_provider, prepare_process, synchronise

__all__ = ["check_networks", "emit_norm_calls"]


def check_networks(task: CheckTask, emit: Callable[[Any], None]) -> None:
    """Compare every arm's output and gradients with the network in float64; emit ("begin", arm) and one CheckResult each."""
    assert isinstance(task.case, ModelCase), task.case
    device = prepare_process(task.conditions, task.case, Pages.REUSED)
    check = _Check(task, task.case, device)
    for name in task.providers:
        emit(("begin", name))
        emit(check.result(name))
    emit(("begin", None))


def emit_norm_calls(argument: tuple[tuple[ModelCase, ...], str], emit: Callable[[Any], None]) -> None:
    """Emit each case with the cases of the op tier that its network's norms are, and how often each is called in one pass."""
    cases, device = argument
    for case in cases:
        emit((case, norm_calls(case, torch.device(device))))
        forget_networks()


class _Check:
    """Check the arms of one network, one after the other, against references that are computed once."""

    def __init__(self, task: CheckTask, case: ModelCase, device: torch.device) -> None:
        self._case = case
        self._device = device
        self._network = network(case.network)
        self._batch = self._network.batch(case.preset, seed=task.seed, device=device, dtype=torch_dtype(case.dtype))
        self._plain = plain_network(case, device)
        self._exact: dict[Norm, dict[str, Tensor | None]] = {}
        self._stray: Stray | None = None

    def result(self, name: str) -> CheckResult:
        norm, provider = split_arm(name)
        case = ModelCase.make(self._case.network, self._case.preset, norm, self._case.pass_, self._case.size, self._case.dtype)
        try:
            calls = norm_calls(case, self._device)
            for op_case in calls:
                if refusal := _refusal(provider, op_case, self._device.type):
                    return CheckResult(provider=name, status=refusal[0], reason=refusal[1])
            return self._compare(name, norm, provider, {one.id: count for one, count in calls.items()})
        except Exception as error:
            status = Status.OOM if is_out_of_memory(error) else Status.ERROR
            said = f"ran out of memory: {first_line(error)}" if status is Status.OOM else f"{type(error).__name__}: {first_line(error)}"
            return CheckResult(provider=name, status=status, reason=said)

    def _compare(self, name: str, norm: Norm, provider: str, calls: dict[str, int]) -> CheckResult:
        has_backward = self._case.pass_.has_backward
        plain = self._own_stray()
        model = swapped_network(self._plain, norm, provider)
        start = time.perf_counter()
        values = outcome(self._network, model, self._batch, has_backward=has_backward)
        synchronise(self._device)
        first_call_s = time.perf_counter() - start
        accuracy = judge(values, self._exact_of(norm), plain, torch_dtype(self._case.dtype))
        wrong = [one for one in accuracy if not one.passed]
        return CheckResult(
            provider=name,
            status=Status.WRONG if wrong else Status.OK,
            reason="; ".join(map(_describe, wrong)) or None,
            accuracy=accuracy,
            first_call_s=first_call_s,
            memory=None if wrong else self._memory(model),
            settings={"grad_mode": "enabled" if has_backward else "no_grad", NORM_CALLS: calls},
        )

    def _own_stray(self) -> Stray:
        """Return how far the network as it was built is from float64."""
        if self._stray is None:
            values = outcome(self._network, self._plain, self._batch, has_backward=self._case.pass_.has_backward)
            self._stray = stray(values, self._exact_of(self._network.norm))
        return self._stray

    def _exact_of(self, norm: Norm) -> dict[str, Tensor | None]:
        if norm not in self._exact:
            wide = swapped_network(without_sharing(self._plain).double(), norm, "eager")
            batch = {key: value.double() if value.is_floating_point() else value for key, value in self._batch.items()}
            self._exact[norm] = outcome(self._network, wide, batch, has_backward=self._case.pass_.has_backward)
        return self._exact[norm]

    def _memory(self, model: nn.Module) -> Memory:
        """Return the peak of one pass above what was there before, and what autograd saves beside parameters and inputs."""
        step = step_of(self._network, model, self._batch)
        call = step if self._case.pass_.has_backward else lambda: self._network.outputs(model, self._batch)
        excluded = (*model.parameters(), *model.buffers(), *self._batch.values())
        try:
            saved = saved_bytes(lambda: self._network.loss(model, self._batch), excluded) if self._case.pass_.has_backward else None
            return Memory(peak_bytes=peak_bytes(call, self._device), saved_bytes=saved)
        except Exception as error:
            return Memory(reason=f"{type(error).__name__}: {first_line(error)}")


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
