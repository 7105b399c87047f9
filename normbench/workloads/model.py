"""The model tier: one pass of a whole network. Turns a case and the arms of its group into the calls that are timed.

A network is built once in a process, and once more for each arm with that arm's norms in it; all arms share the parameters that are
not their own. A repetition copies all of them, so that its tensors lie elsewhere and arms still read the very same ones.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

import msgspec
import torch
from torch import Tensor, nn

from ..cases.case import Case, DType, Norm
from ..cases.model_case import ModelCase
from ..cases.network_case import NetworkCase
from ..errors import UsageError
from ..models.networks import Network, network
from ..models.norms import FoundNorm, case_of_call, find_norms
from ..models.swap import swap_norms
from ..oracle.problem import torch_dtype
from ..records.record import NO_NORM

__all__ = [
    "ModelWorkload",
    "NetworkRepetition",
    "arm_network",
    "arms_and_control",
    "company_case",
    "forget_networks",
    "norm_calls",
    "plain_network",
    "prepare_arms",
    "runs_without_norms",
    "split_arm",
    "step_of",
    "swapped_network",
    "without_sharing",
]

_C = TypeVar("_C", bound=NetworkCase)

WEIGHTS_SEED = 0
"""One set of weights for all processes, so that their spread is that of the machine and of inputs; inputs differ."""

_NETWORKS_KEPT, _ARMS_KEPT = 8, 96
"""Kept in a process: the networks of the groups that a run measures in rotation, and their arms."""


def split_arm(name: str) -> tuple[Norm, str]:
    """Return norm and provider of an arm's name; see `ModelCase.arm`."""
    norm, _, provider = name.partition(":")
    return Norm(norm), provider


def plain_network(case: ModelCase, device: torch.device) -> nn.Module:
    """Return the network of a case with its own norms, in the mode of the pass; kept, so never to be changed."""
    return _built(case.network, case.preset, case.dtype, case.pass_.has_backward, device)


@lru_cache(maxsize=_NETWORKS_KEPT)
def _built(name: str, preset: str, dtype: DType, is_training: bool, device: torch.device) -> nn.Module:
    return network(name).build(preset, dtype=torch_dtype(dtype), device=device, seed=WEIGHTS_SEED).train(is_training)


def forget_networks() -> None:
    """Let go of the networks that are kept in this process: one of real widths takes gigabytes."""
    for kept in (_built, arm_network, runs_without_norms):
        kept.cache_clear()


def swapped_network(plain: nn.Module, norm: Norm, provider: str) -> nn.Module:
    """Return a network with other norms and, but for what those add, the very same parameters.

    Raises UsageError naming the first norm that the provider does not take: a network with some of its norms swapped is no arm.
    """
    copied = copy.deepcopy(plain, {id(parameter): parameter for parameter in plain.parameters()})
    before = {found.name for found in find_norms(copied)}
    swap = swap_norms(copied, norm=norm, provider=provider)
    if left := [one for one in swap.left if one.name in before]:
        raise UsageError(f"{left[0].name} was left: {left[0].reason}")
    return copied


def without_sharing(model: nn.Module) -> nn.Module:
    """Return a copy of a network that shares no tensor with it."""
    return copy.deepcopy(model)


@lru_cache(maxsize=_ARMS_KEPT)
def arm_network(case: ModelCase, arm: str, device: torch.device) -> nn.Module:
    """Return an arm's network, which repetitions copy; `case` stands for all of its company."""
    plain = plain_network(case, device)
    if arm != NO_NORM:
        return swapped_network(plain, *split_arm(arm))
    # A norm's module stays where it is, for other code may read its attributes; it just hands on what it is given.
    model = swapped_network(plain, network(case.network).norm, "aten")
    for found in find_norms(model):
        found.module.forward = _hand_on
    return model


def _hand_on(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x


@lru_cache(maxsize=_NETWORKS_KEPT)
def runs_without_norms(case: ModelCase, device: torch.device) -> bool:
    """Say whether the network computes finite numbers without its norms: infinities and NaN may take another time."""
    try:
        output = _call(case, network(case.network), arm_network(case, NO_NORM, device), _batch(case, device, seed=0))()
    except (RuntimeError, UsageError):
        return False
    return all(bool(tensor.isfinite().all()) for tensor in (output if isinstance(output, tuple) else (output,)) if tensor is not None)


def _batch(case: ModelCase, device: torch.device, *, seed: int) -> dict[str, Tensor]:
    return network(case.network).batch(case.preset, seed=seed, device=device, dtype=torch_dtype(case.dtype), size=case.size)


def step_of(found: Network, model: nn.Module, batch: dict[str, Tensor]) -> Callable[[], tuple[Tensor | None, ...]]:
    """Return a training step without its optimiser: forward, loss, and the gradients of all parameters, returned and not accumulated.

    The gradient of a parameter that the loss does not depend on is None.
    """
    parameters = tuple(parameter for parameter in model.parameters() if parameter.requires_grad)
    grad = torch.autograd.grad

    def step() -> tuple[Tensor | None, ...]:
        return grad(found.loss(model, batch), parameters, allow_unused=True)

    return step


def _call(case: ModelCase, found: Network, model: nn.Module, batch: dict[str, Tensor]) -> Callable[[], Any]:
    return step_of(found, model, batch) if case.pass_.has_backward else partial(found.outputs, model, batch)


def norm_calls(case: ModelCase, device: torch.device, autocast: AbstractContextManager[Any] | None = None) -> dict[Case, int]:
    """Return the norm calls of one pass of a network as cases of the op tier, each with how often it comes.

    They are seen by hooks on one forward pass, which runs under `autocast`, if any. Raises UsageError for a network that cannot compute
    in its dtype on the device.
    """
    model = swapped_network(plain_network(case, device), case.norm, "eager")
    seen: Counter[Case] = Counter()

    def watch(found: FoundNorm, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        called = case_of_call(found, inputs[0], case.pass_)
        assert called is not None, found.name
        seen[called] += 1

    for found in find_norms(model):
        found.module.register_forward_pre_hook(partial(watch, found))
    try:
        with torch.no_grad(), autocast or nullcontext():
            network(case.network).outputs(model, _batch(case, device, seed=0))
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError) as error:
        raise UsageError(f"{case.label} does not run in {case.dtype.value} on {device}: {error}") from error
    return dict(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRepetition:
    """Hold one call per arm, on networks, inputs and caches that no other repetition has; see `workload.Repetition`."""

    calls: Mapping[str, Callable[[], Any]]
    restores: Mapping[str, Callable[[], None]]
    kept: Mapping[str, Callable[[], Any]]
    rewinds: tuple[Callable[[], None], ...] = ()
    input_bytes: int = 0

    @classmethod
    def of(
        cls,
        calls: Mapping[str, Callable[[], Any]],
        restores: Mapping[str, Callable[[], None]],
        rewinds: tuple[Callable[[], None], ...] = (),
    ) -> NetworkRepetition:
        """Return the repetition of these calls, the control's among them where there is one; `rewinds` begins those that go on anew."""
        kept = {name: call for name, call in calls.items() if name == NO_NORM}
        others = {name: call for name, call in calls.items() if name not in kept}
        return cls(calls=others, restores=restores, kept=kept, rewinds=rewinds)

    def controls(self) -> Mapping[str, Callable[[], Any]]:
        """Return the network without norms, where it computes finite numbers."""
        return self.kept

    def begin(self) -> None:
        """Go back to the prompts, where arms write tokens."""
        for rewind in self.rewinds:
            rewind()


def arms_and_control(case: ModelCase, arms: tuple[str, ...], device: torch.device) -> tuple[str, ...]:
    """Return the names of arms, and of the network without norms where it computes finite numbers."""
    return (*arms, NO_NORM) if runs_without_norms(case, device) else arms


def prepare_arms(case: ModelCase, arms: tuple[str, ...], device: torch.device) -> None:
    """Make the networks of arms, and of the control where there is one; `arm_network` then has them."""
    for arm in arms_and_control(case, arms, device):
        arm_network(case, arm, device)


def company_case(case: _C, found: Network) -> _C:
    """Return the one case that stands for all of a company: all arms share what is cached."""
    return msgspec.structs.replace(case, norm=found.norm)


class ModelWorkload:
    """Make repetitions of one pass of a network by several arms; see `workload.Workload`."""

    def __init__(self, case: ModelCase, arms: tuple[str, ...], device: torch.device) -> None:
        """Prepare to call `arms`, named by `ModelCase.arm`; `case` is that of one of them, and its norm counts for nothing here."""
        self._found = network(case.network)
        self._case = company_case(case, self._found)
        self._arms = arms
        self._device = device

    def prepare(self) -> None:
        """Make the network of every arm, which repetitions copy."""
        prepare_arms(self._case, self._arms, self._device)

    def repetition(self, seed: int) -> NetworkRepetition:
        """Return newly allocated networks and inputs and the calls of all arms."""
        batch = _batch(self._case, self._device, seed=seed)
        copied: dict[int, Any] = {}
        calls = {}
        for arm in arms_and_control(self._case, self._arms, self._device):
            # What is copied for one arm is there for the next: arms go on sharing what they shared.
            model = copy.deepcopy(arm_network(self._case, arm, self._device), copied)
            calls[arm] = _call(self._case, self._found, model, batch)
        return NetworkRepetition.of(calls, restores={})
