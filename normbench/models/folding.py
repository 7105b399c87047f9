"""Centring and biases, moved from a LayerNorm into the linear maps around it.

LayerNorm of x with weight g and bias b is RMSNorm of x - mean(x) with weight g, plus b, at the same eps. Centring is linear, so what writes
x can write x - mean(x) instead (arXiv:2305.14858), and a linear map (W, c) that reads the norm can have the bias c + W b.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import Tensor, nn

__all__ = ["can_read", "can_write", "centre", "fold_bias", "untie"]


def can_write(part: nn.Module | nn.Parameter) -> bool:
    """Say whether it is known along which dimension a module or parameter writes."""
    return isinstance(part, nn.Parameter | nn.Linear | nn.Embedding | nn.Conv1d | nn.Conv2d) or _is_transposed(part)


def can_read(module: nn.Module) -> bool:
    """Say whether a module is a linear map that a bias can be folded into."""
    return isinstance(module, nn.Linear) or _is_transposed(module)


@torch.no_grad()
def centre(part: nn.Module | nn.Parameter, width: int) -> None:
    """Take the mean from what a module or parameter writes, over each run of `width` numbers: one run, or one for each head."""
    for tensor, dimension in _written(part):
        rows = tensor.movedim(dimension, -1)
        # A view, so that the tensor itself is changed.
        runs = rows.view(*rows.shape[:-1], -1, width)
        runs -= runs.mean(-1, keepdim=True)


@torch.no_grad()
def fold_bias(module: nn.Module, bias: Tensor) -> bool:
    """Have a linear map add to its output what it would make of `bias`; return whether it had no bias and has got one."""
    assert can_read(module)
    weight = module.weight
    assert isinstance(weight, Tensor)
    added = bias @ weight if _is_transposed(module) else weight @ bias
    own = module.bias
    if own is None:
        module.bias = nn.Parameter(added)
        return True
    assert isinstance(own, Tensor)
    own += added
    return False


def untie(model: nn.Module, writers: set[str], readers: Collection[str] = ()) -> tuple[str, ...]:
    """Give every other holder of a tensor that is to be changed a copy, such as a head tied to the embedding; return the copies' names.

    `writers` are paths of modules or parameters: their tensors stay tied among themselves. `readers` are paths of modules that get
    something folded into their bias, each something else: the first of them keeps a bias that they share. A module that stands in several
    places holds its tensors once, and goes by the first of its paths. A Hugging Face configuration is told of a writer's copy, so that
    the model is not tied again.
    """
    named = {
        f"{path}.{attribute}".removeprefix("."): parameter
        for path, module in model.named_modules()
        for attribute, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
    }
    keepers: dict[int, set[str]] = {}
    for name, parameter in named.items():
        if name in writers or name.rpartition(".")[0] in writers:
            keepers.setdefault(id(parameter), set()).add(name)
    written = set(keepers)
    for name, parameter in named.items():
        owner, _, attribute = name.rpartition(".")
        if owner in readers and attribute == "bias":
            keepers.setdefault(id(parameter), {name})
    copies = {name: parameter for name, parameter in named.items() if name not in keepers.get(id(parameter), {name})}
    for name, original in copies.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, nn.Parameter(original.detach().clone(), requires_grad=original.requires_grad))
    config = getattr(model, "config", None)
    if any(id(parameter) in written for parameter in copies.values()) and hasattr(config, "tie_word_embeddings"):
        config.tie_word_embeddings = False  # type: ignore[union-attr]
    return tuple(copies)


def _written(part: nn.Module | nn.Parameter) -> Iterator[tuple[Tensor, int]]:
    """Yield the tensors that make a writer's output, and the dimension of each along which the output lies."""
    if isinstance(part, nn.Parameter):
        yield part, -1
        return
    weight, bias = part.weight, getattr(part, "bias", None)
    assert isinstance(weight, Tensor)
    yield weight, -1 if isinstance(part, nn.Embedding) or _is_transposed(part) else 0
    if isinstance(bias, Tensor):
        yield bias, 0


def _is_transposed(part: nn.Module | nn.Parameter) -> bool:
    """Say whether it is the Conv1D of `transformers`, a linear map with a weight of (inputs, outputs)."""
    return type(part).__name__ == "Conv1D" and not isinstance(part, nn.Conv1d) and hasattr(part, "nf")
