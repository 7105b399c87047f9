"""The throughput tier: training and serving by a whole network. Turns a case and the arms of its group into the calls that are timed.

Arms that serve share the parameters that are not their own, as in the model tier. Arms that train change theirs: each has a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import nn

from ..cases.throughput_case import SERVED_BATCHES, Mode, ThroughputCase
from ..errors import UsageError
from ..models.networks import Network, network
from ..models.recipe import Batch
from .model import NetworkRepetition, arm_network, arms_and_control, company_case, prepare_arms
from .serving import Decoding, Prefill
from .training import TrainingStep, autocast_of, microbatches, recompute_activations

__all__ = ["ThroughputWorkload", "refuse_case", "throughput_cases", "token_call"]


def _token_size(found: Network, preset: str) -> tuple[int, int]:
    """Return batch and tokens of a network's preset. Raises UsageError for a network that takes no tokens."""
    if len(size := found.size(preset)) != 2:
        raise UsageError(f"network {found.name!r} takes no tokens: the throughput tier measures language models, such as gpt2 and llama")
    return size[0], size[1]


def refuse_case(case: ThroughputCase) -> None:
    """Raise UsageError for a case that its network cannot do."""
    found = network(case.network)
    sizes = _token_size(found, case.preset)
    if case.mode is not Mode.TRAIN and not found.recipe.is_decoder:
        raise UsageError(
            f"network {case.network!r} writes no tokens one after the other: mode {case.mode.value!r} is for decoders such as gpt2"
        )
    if case.size[1] > sizes[1]:
        raise UsageError(f"{case.label} has {sizes[1]} positions, fewer than the {case.size[1]} tokens of size {case.shape_label}")


def throughput_cases(
    *,
    networks: Sequence[str],
    preset: str,
    modes: Sequence[str],
    norms: Sequence[str],
    dtypes: Sequence[str],
    trained: Sequence[int] = (),
    served: Sequence[int] = SERVED_BATCHES,
    tokens: int | None = None,
    accumulation: int = 1,
    autocast: str | None = None,
    checkpointing: bool = False,
) -> tuple[ThroughputCase, ...]:
    """Return the cases of every choice: for each network each dtype, then each mode, each batch and each norm.

    Batches are `trained` and `served`; the preset's is trained where `trained` is empty, and `tokens` None means the preset's. Options
    of training leave serving as it is. Raises UsageError naming the first word that does not fit.
    """
    cases = []
    for name, dtype, mode in product(networks, dtypes, modes):
        usual = _token_size(network(name), preset)
        is_trained = mode == Mode.TRAIN
        for batch, norm in product((trained or usual[:1]) if is_trained else served, norms):
            case = ThroughputCase.make(
                name,
                preset,
                norm,
                mode,
                (batch, usual[1] if tokens is None else tokens),
                dtype,
                accumulation=accumulation if is_trained else 1,
                autocast=autocast,
                checkpointing=checkpointing and is_trained,
            )
            refuse_case(case)
            cases.append(case)
    return tuple(dict.fromkeys(cases))


def token_call(
    case: ThroughputCase, found: Network, model: nn.Module, batches: list[Batch], device: torch.device
) -> TrainingStep | Prefill | Decoding:
    """Return the call of a case on a model of the network `found`, which a training step changes; `batches` are its microbatches."""
    autocast = autocast_of(case.autocast, device)
    if case.mode is Mode.TRAIN:
        if case.checkpointing:
            recompute_activations(model, case.label)
        return TrainingStep(found, model, batches, autocast=autocast)
    (tokens,) = batches[0].values()
    return Prefill(model, tokens, autocast) if case.mode is Mode.PREFILL else Decoding(model, tokens, case.prompt, autocast)


class ThroughputWorkload:
    """Make repetitions of training or serving by several arms; see `workload.Workload`."""

    def __init__(self, case: ThroughputCase, arms: tuple[str, ...], device: torch.device) -> None:
        """Prepare to call `arms`, named by `ThroughputCase.arm`; `case` is that of one of them, and its norm counts for nothing here."""
        self._found = network(case.network)
        self._case = company_case(case, self._found)
        self._arms = arms
        self._device = device

    def prepare(self) -> None:
        """Make the network of every arm, which repetitions copy."""
        prepare_arms(self._case.model_case, self._arms, self._device)

    def repetition(self, seed: int) -> NetworkRepetition:
        """Return newly allocated networks, inputs and caches and the calls of all arms."""
        case = self._case
        names = arms_and_control(case.model_case, self._arms, self._device)
        calls: dict[str, Callable[[], Any]] = {}
        batches = microbatches(case, self._found, self._device, seed=seed)
        shared: dict[int, Any] = {}
        for name in names:
            # Who only reads parameters shares them with the other arms; who trains has its own.
            model = copy.deepcopy(arm_network(case.model_case, name, self._device), None if case.mode is Mode.TRAIN else shared)
            calls[name] = token_call(case, self._found, model, batches, self._device)
        decoding = {name: call for name, call in calls.items() if isinstance(call, Decoding)}
        restores = {name: call.make_room for name, call in decoding.items()}
        return NetworkRepetition.of(calls, restores, tuple(call.rewind for call in decoding.values()))
