"""What a network is made by: how its module, its inputs and its loss come about, for each preset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Batch", "Recipe", "class_loss", "in_dtype", "next_token_loss", "same_token_loss"]

Batch = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Hold the functions that make a network of a preset ("tiny", "full").

    `sizes` has the shape of the main input of each preset. `make(preset)` returns the module, with weights from torch's generator and
    no dropout. `inputs(size, preset, generator)` returns the model's keyword arguments on the CPU. `output` picks, from what the
    model returns, the differentiable tensor that is compared. `loss(output, batch)` is what is trained, a scalar. `extra` names the
    provider whose requirement (`catalogue.REQUIREMENTS`) must be installed, or is None. `is_decoder` says that it predicts each token
    from those before it and takes `input_ids`, `cache`, `use_cache` and `logits_to_keep` as models of `transformers` do.
    """

    sizes: Mapping[str, tuple[int, ...]]
    make: Callable[[str], nn.Module]
    inputs: Callable[[tuple[int, ...], str, torch.Generator], Batch]
    output: Callable[[Any], Tensor]
    loss: Callable[[Tensor, Batch], Tensor]
    extra: str | None = None
    is_decoder: bool = False


def in_dtype(batch: Mapping[str, Tensor], dtype: torch.dtype) -> Batch:
    """Return a batch with its floating-point tensors, such as pixels, in a dtype."""
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in batch.items()}


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the cross-entropy of logits (batch, tokens, vocabulary) against the token that follows each, in float32 or wider."""
    return _cross_entropy(logits[:, :-1], tokens[:, 1:])


def same_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the cross-entropy of logits (batch, tokens, vocabulary) against the tokens themselves, as a masked model is trained."""
    return _cross_entropy(logits, tokens)


def class_loss(logits: Tensor) -> Tensor:
    """Return the cross-entropy of logits (batch, classes) against the classes 0, 1, 2, …, one for each of the batch."""
    return _cross_entropy(logits, torch.arange(len(logits), device=logits.device) % logits.shape[-1])


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
