"""What forward passes show of a conversion: whether the inputs of its norms are centred, and whether its outputs are the model's.

A pass may write to a model, as an embedding with `max_norm` does: whoever asks gives a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .inference import inference
from .recipe import in_dtype

__all__ = ["Batch", "Batches", "Evidence", "difference", "look"]

Batch = Mapping[str, Tensor]
"""Keyword arguments of a model."""

Batches = Mapping[str, Batch]
"""Batches by a name of each, such as "random"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Hold what was seen of a model on batches.

    `outputs` are all tensors in what it returned, by batch and place. `offsets` say by norm how large the mean of its input is beside
    the input's size, both as root mean squares over rows, at most.
    """

    outputs: dict[tuple[str, str], Tensor]
    offsets: dict[str, float]


def look(model: nn.Module, batches: Batches, norms: Mapping[str, int] | None = None) -> Evidence:
    """Run a model of float64 on batches in inference; `norms` are the paths of those that are watched, with their number of dimensions.

    What a model draws at random is the same at every look, and torch's generators stay as they are.
    """
    outputs: dict[tuple[str, str], Tensor] = {}
    offsets: dict[str, float] = {}

    def note(name: str, x: Tensor) -> None:
        size = x.square().mean().clamp_min(torch.finfo(x.dtype).tiny)
        mean = x.flatten(-norms[name] if norms else -1).mean(-1)
        offsets[name] = max(offsets.get(name, 0.0), (mean.square().mean() / size).sqrt().item())

    def watch(name: str) -> RemovableHandle:
        def hook(_: nn.Module, inputs: tuple[Any, ...], by_name: dict[str, Any]) -> None:
            note(name, next(iter((*inputs, *by_name.values()))))

        return model.get_submodule(name).register_forward_pre_hook(hook, with_kwargs=True)

    devices = {parameter.device for parameter in model.parameters() if parameter.device.type == "cuda"}
    hooks = [watch(name) for name in norms or {}]
    try:
        with inference(model), torch.random.fork_rng(devices=list(devices)):
            torch.manual_seed(0)
            for name, batch in batches.items():
                output = model(**in_dtype(batch, torch.float64))
                outputs |= {(name, place): value.detach().clone() for place, value in _tensors(output, "")}
    finally:
        for hook in hooks:
            hook.remove()
    return Evidence(outputs=outputs, offsets=offsets)


def difference(found: Evidence, wanted: Evidence) -> tuple[float, str]:
    """Return how far outputs are from those wanted, norm(y' - y) / norm(y) at most, and the place of that; infinite without any tensor."""
    if not wanted.outputs:
        return float("inf"), "there is no tensor in them"
    return max((_distance(found.outputs.get(key), y), key[1] or "the tensor returned") for key, y in wanted.outputs.items())


def _tensors(value: Any, place: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in what a model returned, by keys, positions and fields joined by dots."""
    parts: Iterator[tuple[Any, Any]]
    if isinstance(value, Tensor):
        yield place, value
        return
    if isinstance(value, Mapping):
        parts = iter(value.items())
    elif isinstance(value, tuple | list):
        parts = enumerate(value)
    elif is_dataclass(value):
        parts = ((field.name, getattr(value, field.name)) for field in fields(value))
    else:
        return
    for name, part in parts:
        yield from _tensors(part, f"{place}.{name}".removeprefix("."))


def _distance(found: Tensor | None, wanted: Tensor) -> float:
    if found is None or found.shape != wanted.shape:
        return float("inf")
    y, z = wanted.double(), found.double()
    # Logits that are masked are minus infinity in both.
    error = torch.where((y == z) | (y.isnan() & z.isnan()), 0.0, z - y).norm().item()
    if error == 0.0:
        return 0.0
    ratio = error / max(y.nan_to_num(0.0, 0.0, 0.0).norm().item(), torch.finfo(torch.float64).tiny)
    return ratio if ratio == ratio else float("inf")
