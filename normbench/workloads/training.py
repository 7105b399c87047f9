"""One step of training as users pay for it: forward, loss and backward of each microbatch, then the optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..cases.case import DType
from ..cases.throughput_case import ThroughputCase
from ..errors import UsageError
from ..models.networks import Network
from ..models.recipe import Batch
from ..oracle.problem import torch_dtype

__all__ = ["LEARNING_RATE", "TrainingStep", "autocast_of", "microbatches", "recompute_activations"]

LEARNING_RATE = 1e-6
"""So small that thousands of steps leave the network the one that was checked; the step's cost does not depend on it."""


def autocast_of(dtype: DType | None, device: torch.device) -> AbstractContextManager[Any]:
    """Return what operators compute under: PyTorch's autocast to a dtype, or nothing."""
    return nullcontext() if dtype is None else torch.autocast(device.type, torch_dtype(dtype))


def microbatches(case: ThroughputCase, found: Network, device: torch.device, *, seed: int) -> list[Batch]:
    """Return the batches of one step, on the device: loading data is no part of a step."""
    dtype = torch_dtype(case.dtype)
    count = case.accumulation
    return [found.batch(case.preset, seed=seed * count + number, device=device, dtype=dtype, size=case.size) for number in range(count)]


def recompute_activations(model: nn.Module, label: str) -> None:
    """Have a network's layers compute their activations again in the backward. Raises UsageError for a network that cannot."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise UsageError(f"{label} knows no activation checkpointing: leave it out, or name a network such as gpt2 or llama")
    model.activation_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]


class TrainingStep:
    """Take one step of AdamW on a network with every call, the gradients of `batches` averaged. The network is changed by it.

    `model` is the network, or a wrapper that takes the same arguments. One whose `no_sync` puts off the exchange of gradients
    exchanges them with the last microbatch alone.
    """

    def __init__(self, found: Network, model: nn.Module, batches: Sequence[Batch], *, autocast: AbstractContextManager[Any]) -> None:
        self._found = found
        self._model = model
        self._batches = tuple(batches)
        self._autocast = autocast
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # One kernel for all parameters, where users of speed have it too; the loop over parameters would hide the norms behind it.
        self._optimiser = torch.optim.AdamW(trained, lr=LEARNING_RATE, fused=True)

    def __call__(self) -> Tensor:
        """Take a step and return the sum of the microbatches' shares of the loss, detached: a scalar."""
        *earlier, last = self._batches
        put_off = getattr(self._model, "no_sync", nullcontext)
        total = None
        if earlier:
            with put_off():
                for batch in earlier:
                    total = self._accumulate(batch, total)
        total = self._accumulate(last, total)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        return total

    def _accumulate(self, batch: Batch, total: Tensor | None) -> Tensor:
        with self._autocast:
            loss = self._found.loss(self._model, batch) / len(self._batches)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach() if total is None else total + loss.detach()
