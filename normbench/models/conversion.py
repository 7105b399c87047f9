"""LayerNorm to RMSNorm in a trained model, without a difference where that is possible.

A weight alone carries over only in part: LayerNorm centres its input and adds a bias. Where the surroundings of a norm are known
(`wiring.py`), both are folded into linear maps (`folding.py`), and the converted model computes what the model did; else the weight is
kept, the bias dropped, and the result says so. Dropout on what is written undoes the centring, so equality is that of inference.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..cases.case import Norm
from ..cases.layers import like_layers
from ..errors import UsageError
from .evidence import Batches, Evidence, difference, look
from .folding import can_read, can_write, centre, fold_bias, untie
from .norms import FoundNorm, find_norms
from .swap import put, swap_norms
from .wiring import Wire, wires_of

__all__ = ["Conversion", "ConvertedNorm", "convert_model"]

UNKNOWN = "nothing is known of what writes to its input"
CENTRED = 1e-9
"""How large the mean of a centred input may be beside the input's size, in float64: rounding leaves some 1e-16."""
SAME = 1e-9
"""How far outputs may be off beside their size, in float64: rounding leaves some 1e-15."""


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

    Folding is computed in float64 and rounded once, to each parameter's dtype. What is called exact is so by what is declared of the
    model's class. Where `batches` of keyword arguments are given, it is also seen on them before that rounding: a norm whose input is
    not as centred as it should be is not called exact, and none is where outputs differ. `fold=False` copies weights and drops biases, as
    migration guides do. Raises UsageError where there is no LayerNorm or one cannot be replaced.
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
            wanted = look(copy.deepcopy(twin), batches) if batches else None
            wires = _wires(twin, layer_norms)
            readers = {path for one in layer_norms if one.name in wires and _has_bias(one) for path in wires[one.name].readers}
            untied = untie(twin, {path for wire in wires.values() for path in wire.writers}, readers)
            norms = tuple(_fold(one, wires.get(one.name), added, twin) for one in layer_norms)
            _centre_writers(twin, layer_norms, wires)
            if batches and wanted is not None:
                norms = _checked(twin, layer_norms, norms, batches, wanted)
        else:
            norms = tuple(_copied(one) for one in layer_norms)
        _replace(twin, layer_norms)
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


def _wires(model: nn.Module, norms: list[FoundNorm]) -> dict[str, Wire]:
    """Return the usable wire of each norm that one is known for, by its first path; a shared norm keeps what all its places agree in."""
    places: dict[nn.Module, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        places.setdefault(module, []).append(path)
    known = wires_of(model, {path for one in norms for path in places[one.module]})
    wires = {one.name: _shared(known, places[one.module]) for one in norms if one.name in known}
    readers = Counter(path for wire in wires.values() for path in wire.readers)
    return {name: _usable(model, wire, {path for path in wire.readers if readers[path] > 1}) for name, wire in wires.items()}


def _shared(known: Mapping[str, Wire], places: list[str]) -> Wire:
    """Return the wire of the first place without the writers or readers that are others in another place."""
    wire = known[places[0]]
    for place in places[1:]:
        other = known.get(place, Wire(norm=place))
        why = f"it stands at {place} too, where others {{}}"
        if set(other.writers) != set(wire.writers):
            wire = replace(wire, writers=(), why_uncentred=why.format("write to its input"))
        if (set(other.readers), other.why_unseen) != (set(wire.readers), wire.why_unseen):
            wire = replace(wire, readers=(), why_unread=why.format("read its output"), why_unseen="")
    return wire


def _usable(model: nn.Module, wire: Wire, torn: set[str]) -> Wire:
    """Return a wire without the parts, such as those that a user has wrapped, that nothing can be folded into, and with the reason.

    `torn` are the readers of other norms too, each of which has another bias.
    """
    for path in wire.writers:
        if not can_write(part := _part(model, path)):
            why = f"{path}, which writes to its input, is a {type(part).__name__}, not a linear map that could be centred"
            wire = replace(wire, writers=(), why_uncentred=why)
    for path in wire.readers:
        if not can_read(part := model.get_submodule(path)):
            why = f"{path}, which reads its output, is a {type(part).__name__}, not a linear map that would take the bias"
            wire = replace(wire, readers=(), why_unread=why)
        elif path in torn:
            wire = replace(wire, readers=(), why_unread=f"{path}, which reads its output, reads that of another norm too")
    return wire


def _fold(found: FoundNorm, wire: Wire | None, added: list[str], model: nn.Module) -> ConvertedNorm:
    """Move a norm's bias into what reads it; say what becomes of the bias and of the centring."""
    reasons = []
    if wire is not None and wire.writers:
        centring = f"folded into {_list(wire.writers)}"
    else:
        centring = "dropped"
        reasons.append(wire.why_uncentred if wire is not None and wire.why_uncentred else UNKNOWN)
    bias = _bias_of(found)
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
    if fate != "dropped" and found.bias_name is not None and bias is not None:
        # Another norm may share the tensor, and keep it.
        found.module._parameters[found.bias_name] = nn.Parameter(torch.zeros_like(bias), requires_grad=bias.requires_grad)
    return ConvertedNorm(name=found.name, centring=centring, bias=fate, reasons=tuple(reasons))


def _centre_writers(model: nn.Module, norms: list[FoundNorm], wires: Mapping[str, Wire]) -> None:
    widths = {path: found.normalized_shape[-1] for found in norms if found.name in wires for path in wires[found.name].writers}
    for path, width in widths.items():
        centre(_part(model, path), width)


def _copied(found: FoundNorm) -> ConvertedNorm:
    bias = "dropped" if _has_bias(found) else "none"
    return ConvertedNorm(name=found.name, centring="dropped", bias=bias, reasons=("its weight was copied",))


def _has_bias(found: FoundNorm) -> bool:
    """Say whether a norm has a bias that is not 0."""
    bias = _bias_of(found)
    return bias is not None and bool(bias.any())


def _bias_of(found: FoundNorm) -> Tensor | None:
    return None if found.bias_name is None else found.module._parameters[found.bias_name]


def _part(model: nn.Module, path: str) -> nn.Module | nn.Parameter:
    """Return the module or parameter of a path."""
    owner, _, name = path.rpartition(".")
    parent = model.get_submodule(owner)
    parameter = parent._parameters.get(name)
    return parent.get_submodule(name) if parameter is None else parameter


def _list(paths: tuple[str, ...]) -> str:
    """Return paths as text, those that differ by a number only once."""
    return ", ".join(dict.fromkeys(map(like_layers, paths)))


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


def _checked(
    model: nn.Module, found: list[FoundNorm], norms: tuple[ConvertedNorm, ...], batches: Batches, wanted: Evidence
) -> tuple[ConvertedNorm, ...]:
    """Return the norms with a reason more for those that are not exact on these batches, although all of theirs was folded.

    `model` is folded, and its norms are not yet replaced. Those whose inputs still have a mean are named one by one. Then those that are
    left as exact are replaced in a copy: as the others still are LayerNorms, with the biases that found no place, its outputs are `wanted`.
    """
    centred = {norm.name: len(one.normalized_shape) for one, norm in zip(found, norms, strict=True) if norm.centring != "dropped"}
    offsets = look(copy.deepcopy(model), batches, centred).offsets
    norms = tuple(
        norm
        if (offset := offsets.get(norm.name, 0.0)) <= CENTRED
        else replace(norm, reasons=(*norm.reasons, f"its input still has a mean of {offset:.1g} of its size: something else writes to it"))
        for norm in norms
    )
    off, place = difference(look(_with_exact_replaced(model, norms), batches), wanted)
    if off <= SAME:
        return norms
    why = f"the outputs differ by {off:.1g} of their size ({place}): something else reads or writes here"
    return tuple(
        norm if norm.centring == "dropped" and norm.bias in ("none", "dropped") else replace(norm, reasons=(*norm.reasons, why))
        for norm in norms
    )


def _with_exact_replaced(model: nn.Module, norms: tuple[ConvertedNorm, ...]) -> nn.Module:
    """Return a copy of a model with RMSNorms in the places of the norms that are exact, and nothing else replaced."""
    twin = copy.deepcopy(model)
    exact = {norm.name for norm in norms if norm.is_exact}
    before = dict(twin.named_modules())
    if exact:
        for one in swap_norms(twin, norm=Norm.RMS_NORM).replaced:
            if one.name not in exact:
                put(twin, twin.get_submodule(one.name), before[one.name])
    return twin
