"""LayerNorm to RMSNorm in a trained model, without a difference where that is possible.

A weight alone carries over only in part: LayerNorm centres its input and adds a bias. Where the surroundings of a norm are known
(`wiring.py`), both are folded into linear maps (`folding.py`), and the converted model computes what the model did; else the weight is
kept, the bias dropped, and the result says so. Dropout on what is written undoes the centring, so equality is that of inference.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..case import Norm
from ..errors import UsageError
from .folding import can_read, can_write, centre, fold_bias, untie
from .norms import FoundNorm, find_norms
from .swap import swap_norms
from .wiring import Wire, wires_of

__all__ = ["Batch", "Batches", "Conversion", "ConvertedNorm", "convert_model", "in_dtype", "inference"]

Batch = Mapping[str, Tensor]
"""Keyword arguments of a model."""

Batches = Mapping[str, Batch]
"""Batches by a name of each, such as "random"."""

UNKNOWN = "nothing is known of what writes to its input"
CENTRED = 1e-9
"""How large the mean of a centred input may be beside the input's size, in float64: rounding leaves some 1e-16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedNorm:
    """Say of one norm what became of its centring and its bias, and whether it computes what it did.

    `name` is its path. `centring` and `bias` say where each went: "folded into …", "none" (there was no bias, or a bias of 0), "unseen",
    or "dropped". `reasons` say why something was dropped; without one the norm is exact.
    """

    name: str
    centring: str
    bias: str
    reasons: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Hold a converted model and what was done to it.

    `untied` are the parameters that are copies now, such as the weight of a head that was the embedding's; `added` the biases that the
    model's class does not have; `kept` the norms that were RMSNorms before.
    """

    model: nn.Module
    norms: tuple[ConvertedNorm, ...]
    untied: tuple[str, ...]
    added: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return all(norm.is_exact for norm in self.norms)


def convert_model(model: nn.Module, batches: Batches | None = None, *, fold: bool = True, provider: str | None = None) -> Conversion:
    """Return a copy of a model with an RMSNorm, computed by `provider`, in the place of every LayerNorm.

    Folding is computed in float64 and rounded once, to each parameter's dtype. Where `batches` of keyword arguments are given, the copy is
    run on them before that rounding, and a norm whose input is not as centred as it should be is not called exact. `fold=False` copies
    weights and drops biases, as migration guides do. Raises UsageError where there is no LayerNorm or one cannot be replaced.
    """
    twin = copy.deepcopy(model)
    found = find_norms(twin)
    layer_norms = [one for one in found if one.norm is Norm.LAYER_NORM]
    if not layer_norms:
        has = f"its {len(found)} norms are RMSNorms already" if found else "no norm was found in it"
        raise UsageError(f"{type(model).__name__} has no LayerNorm to convert: {has}")
    untied: tuple[str, ...] = ()
    added: list[str] = []
    with _in_float64(twin):
        if fold:
            wires = {name: _usable(twin, wire) for name, wire in wires_of(twin, {one.name for one in layer_norms}).items()}
            untied = untie(twin, {path for wire in wires.values() for path in wire.writers})
            norms = tuple(_fold(twin, one, wires.get(one.name), added) for one in layer_norms)
            _centre_writers(twin, layer_norms, wires)
        else:
            norms = tuple(_copied(one) for one in layer_norms)
        _replace(twin, layer_norms)
        if batches:
            norms = _checked(twin, norms, batches)
    if provider is not None:
        swap_norms(twin, provider=provider)
    kept = tuple(one.name for one in found if one.norm is Norm.RMS_NORM)
    return Conversion(model=twin, norms=norms, untied=untied, added=tuple(added), kept=kept)


def _replace(model: nn.Module, norms: list[FoundNorm]) -> None:
    swap = swap_norms(model, norm=Norm.RMS_NORM)
    replaced = {one.name for one in swap.replaced}
    for norm in norms:
        if norm.name not in replaced:
            reason = next((one.reason for one in swap.left if one.name == norm.name), "it could not be replaced")
            raise UsageError(f"norm {norm.name!r} cannot be converted: {reason}")


def _usable(model: nn.Module, wire: Wire) -> Wire:
    """Return a wire without the parts, such as those that a user has wrapped, that nothing can be folded into, and with the reason."""
    for path in wire.writers:
        if not can_write(part := _part(model, path)):
            why = f"{path}, which writes to its input, is a {type(part).__name__}, not a linear map that could be centred"
            wire = replace(wire, writers=(), why_uncentred=why)
    for path in wire.readers:
        if not can_read(part := model.get_submodule(path)):
            why = f"{path}, which reads its output, is a {type(part).__name__}, not a linear map that would take the bias"
            wire = replace(wire, readers=(), why_unread=why)
    return wire


def _fold(model: nn.Module, found: FoundNorm, wire: Wire | None, added: list[str]) -> ConvertedNorm:
    """Fold a norm's bias into what reads it; say what becomes of the bias and of the centring."""
    reasons = []
    if wire is not None and wire.writers:
        centring = f"folded into {_list(wire.writers)}"
    else:
        centring = "dropped"
        reasons.append(wire.why_uncentred if wire is not None and wire.why_uncentred else UNKNOWN)
    bias = _bias_of(model, found)
    if bias is None or not bias.any():
        fate = "none"
    elif wire is not None and wire.readers:
        added += [f"{path}.bias" for path in wire.readers if fold_bias(model.get_submodule(path), bias)]
        fate = f"folded into {_list(wire.readers)}"
    elif wire is not None and wire.why_unseen:
        fate = "unseen"
    else:
        fate = "dropped"
        if wire is not None and wire.why_unread:
            reasons.append(wire.why_unread)
        elif not reasons:
            reasons.append("nothing is known of what reads its output")
    return ConvertedNorm(name=found.name, centring=centring, bias=fate, reasons=tuple(reasons))


def _centre_writers(model: nn.Module, norms: list[FoundNorm], wires: Mapping[str, Wire]) -> None:
    widths = {path: found.normalized_shape[-1] for found in norms if found.name in wires for path in wires[found.name].writers}
    for path, width in widths.items():
        centre(_part(model, path), width)


def _copied(found: FoundNorm) -> ConvertedNorm:
    has_bias = found.bias_name is not None and bool(found.module._parameters[found.bias_name].any())  # type: ignore[union-attr]
    return ConvertedNorm(name=found.name, centring="dropped", bias="dropped" if has_bias else "none", reasons=("its weight was copied",))


def _bias_of(model: nn.Module, found: FoundNorm) -> Tensor | None:
    return None if found.bias_name is None else model.get_submodule(found.name)._parameters[found.bias_name]


def _part(model: nn.Module, path: str) -> nn.Module | nn.Parameter:
    """Return the module or parameter of a path."""
    owner, _, name = path.rpartition(".")
    parent = model.get_submodule(owner)
    parameter = parent._parameters.get(name)
    return parent.get_submodule(name) if parameter is None else parameter


def _list(paths: tuple[str, ...]) -> str:
    """Return paths as text, those that differ by a number only once."""
    return ", ".join(dict.fromkeys(".".join("*" if part.isdigit() else part for part in path.split(".")) for path in paths))


@contextmanager
def _in_float64(model: nn.Module) -> Iterator[None]:
    """Hold the floating-point tensors of a model in float64 for as long as it lasts, and round each to its dtype after."""
    dtypes = {name: tensor.dtype for name, tensor in _floating(model)}
    for _, tensor in _floating(model):
        tensor.data = tensor.data.double()
    yield
    for name, tensor in _floating(model):
        # A bias that was added has the dtype of its weight.
        tensor.data = tensor.data.to(dtypes.get(name) or dtypes[f"{name.rpartition('.')[0]}.weight"])


def _floating(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the floating-point parameters and buffers of a model by each of their names, the same one for tied ones."""
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return [(name, tensor) for name, tensor in named if tensor.is_floating_point()]


def _checked(model: nn.Module, norms: tuple[ConvertedNorm, ...], batches: Batches) -> tuple[ConvertedNorm, ...]:
    """Return the norms with one reason more for those whose inputs, on these batches, still have a mean although it was folded."""
    offsets = _offsets(model, [norm.name for norm in norms if norm.centring != "dropped"], batches)
    return tuple(
        norm
        if (offset := offsets.get(norm.name, 0.0)) <= CENTRED
        else replace(norm, reasons=(*norm.reasons, f"its input still has a mean of {offset:.1g} of its size: something else writes to it"))
        for norm in norms
    )


def _offsets(model: nn.Module, names: list[str], batches: Batches) -> dict[str, float]:
    """Return by norm how large the mean of its input is beside the input's size, both as root mean squares over rows, at most."""
    found: dict[str, float] = {}

    def note(name: str, x: Tensor) -> None:
        size = x.square().mean().clamp_min(torch.finfo(x.dtype).tiny)
        found[name] = max(found.get(name, 0.0), (x.mean(-1).square().mean() / size).sqrt().item())

    def watch(name: str) -> RemovableHandle:
        return model.get_submodule(name).register_forward_pre_hook(lambda _, inputs: note(name, inputs[0]))

    hooks = [watch(name) for name in names]
    try:
        with inference(model):
            for batch in batches.values():
                model(**in_dtype(batch, torch.float64))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def in_dtype(batch: Batch, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return a batch with its floating-point tensors, such as pixels, in a dtype."""
    return {name: value.to(dtype) if value.is_floating_point() else value for name, value in batch.items()}


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Hold a model in evaluation mode, without gradients, for as long as it lasts."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
