"""The throughput tier: training and serving by a whole network. Turns a case and the arms of its group into the calls that are timed.

Arms that serve share the parameters that are not their own, as in the model tier. Arms that train change theirs: each has a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch import nn

from ..errors import UsageError
from ..models.networks import Network, network
from ..record import NO_NORM
from ..throughput_case import Mode, ThroughputCase
from .model import arm_network, runs_without_norms
from .serving import Decoding, Prefill
from .training import TrainingStep, autocast_of, microbatches, recompute_activations

__all__ = ["ThroughputRepetition", "ThroughputWorkload", "refuse_case", "token_size"]


def token_size(found: Network, preset: str) -> tuple[int, int]:
    """Return batch and tokens of a network's preset. Raises UsageError for a network that takes no tokens."""
    if len(size := found.size(preset)) != 2:
        raise UsageError(f"network {found.name!r} takes no tokens: the throughput tier measures language models, such as gpt2 and llama")
    return size[0], size[1]


def refuse_case(case: ThroughputCase) -> None:
    """Raise UsageError for a case that its network cannot do."""
    found = network(case.network)
    sizes = token_size(found, case.preset)
    if case.mode is not Mode.TRAIN and not found.recipe.is_decoder:
        raise UsageError(
            f"network {case.network!r} writes no tokens one after the other: mode {case.mode.value!r} is for decoders such as gpt2"
        )
    if case.size[1] > sizes[1]:
        raise UsageError(f"{case.label} has {sizes[1]} positions, fewer than the {case.size[1]} tokens of size {case.shape_label}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputRepetition:
    """Hold one call per arm, on networks and caches that no other repetition has; see `workload.Repetition`."""

    calls: Mapping[str, Callable[[], Any]]
    restores: Mapping[str, Callable[[], None]]
    kept: Mapping[str, Callable[[], Any]]
    input_bytes: int = 0

    def controls(self) -> Mapping[str, Callable[[], Any]]:
        """Return the network without norms, where it computes finite numbers."""
        return self.kept


class ThroughputWorkload:
    """Make repetitions of training or serving by several arms; see `workload.Workload`."""

    def __init__(self, case: ThroughputCase, arms: tuple[str, ...], device: torch.device) -> None:
        """Prepare to call `arms`, named by `ThroughputCase.arm`; `case` is that of one of them, and its norm counts for nothing here."""
        self._found = network(case.network)
        # One case for the whole company: all of it shares what is cached.
        self._case = msgspec.structs.replace(case, norm=self._found.norm)
        self._arms = arms
        self._device = device
        self._autocast = autocast_of(case.autocast, device)

    def repetition(self, seed: int) -> ThroughputRepetition:
        """Return newly allocated networks, inputs and caches and the calls of all arms."""
        case = self._case
        has_control = runs_without_norms(case.model_case, self._device)
        names = (*self._arms, *([NO_NORM] if has_control else []))
        calls: dict[str, Callable[[], Any]] = {}
        if case.mode is Mode.TRAIN:
            batches = microbatches(case, self._found, self._device, seed=seed)
            for name in names:
                calls[name] = TrainingStep(self._found, self._trained(name), batches, autocast=self._autocast)
        else:
            (tokens,) = microbatches(case, self._found, self._device, seed=seed)[0].values()
            shared: dict[int, Any] = {}
            for name in names:
                model = copy.deepcopy(arm_network(case.model_case, name, self._device), shared)
                is_prefill = case.mode is Mode.PREFILL
                calls[name] = Prefill(model, tokens, self._autocast) if is_prefill else Decoding(model, tokens, case.prompt, self._autocast)
        restores = {name: call.rewind for name, call in calls.items() if isinstance(call, Decoding)}
        kept = {NO_NORM: calls.pop(NO_NORM)} if has_control else {}
        return ThroughputRepetition(calls=calls, restores=restores, kept=kept)

    def _trained(self, arm: str) -> nn.Module:
        model = copy.deepcopy(arm_network(self._case.model_case, arm, self._device))
        if self._case.checkpointing:
            recompute_activations(model, self._case.label)
        return model
