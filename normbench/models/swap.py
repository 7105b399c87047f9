"""Exchange the norms of a model for modules that let a provider do the work, in place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..cases.case import Case, Convention, DType, Norm, Pass
from ..errors import UsageError
from ..nn import LayerNorm, RMSNorm
from ..oracle.problem import dtype_name
from ..registry import Provider, Registry
from ..text.words import member
from .arguments import first_input
from .named import Keyword, NamedNorm, taking
from .norms import FoundNorm, Left, survey

__all__ = ["Replaced", "Swap", "put", "swap_norms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Say which norm was replaced, by what, and what that leaves out or adds: None where it computes the same function."""

    name: str
    before: Norm
    after: Norm
    provider: str | None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Hold what was replaced and what was left, each with its reason; every module that is a norm or called one is in one of them."""

    replaced: tuple[Replaced, ...]
    left: tuple[Left, ...]


def swap_norms(model: nn.Module, *, norm: Norm | str | None = None, provider: str | None = None) -> Swap:
    """Replace every LayerNorm and RMSNorm of a model, in place, by one that `provider` computes; return what was replaced and left.

    `provider` is a name or a file; by default triton on a GPU and aten elsewhere. With `norm` None each keeps its kind; "rms_norm" or
    "layer_norm" makes all of them that, at the same eps: a LayerNorm loses its bias and its centring, an RMSNorm gains a bias of 0, and
    outputs change. Else the new module computes the same function with the same parameters, tied ones included, and keeps dtype, device,
    mode, hooks, state_dict keys, attributes and the name of its input. Raises UsageError where no norm is found or none can be replaced.
    """
    target = None if norm is None else member(Norm, norm, "norm")
    resolved = Registry().resolve(provider) if provider else None
    found, look_alikes = survey(model)
    left, replaced, modules = list(look_alikes), list[Replaced](), set[nn.Module]()
    for one in found:
        after = target or one.norm
        if reason := _obstacle(model, one, after, resolved):
            left.append(Left(name=one.name, reason=reason))
            continue
        new = _replacement(one, after, provider)
        put(model, one.module, new)
        modules.add(new)
        replaced.append(Replaced(name=one.name, before=one.norm, after=after, provider=provider, note=_note(one, after)))
    if not replaced:
        raise UsageError(_nothing(model, left))
    _keep_from_fast_path(model, modules)
    return Swap(replaced=tuple(replaced), left=tuple(left))


def _nothing(model: nn.Module, left: list[Left]) -> str:
    kind = type(model).__name__
    if not left:
        return f"{kind} has no norm that was found among its {sum(1 for _ in model.modules())} modules: nothing can be swapped in it"
    listed = "; ".join(f"{one.name or 'the model itself'}: {one.reason}" for one in left[:3])
    more = f"; and {len(left) - 3} more" if len(left) > 3 else ""
    return f"no norm of {kind} can be swapped: {listed}{more}"


def _obstacle(model: nn.Module, found: FoundNorm, after: Norm, provider: Provider | None) -> str | None:
    """Return why a norm cannot be replaced, or None."""
    if found.module is model:
        return "it is the whole model: there is nothing around it to put another one into"
    if provider is None:
        return None
    place = next(iter(found.module.parameters()), next(iter(model.parameters()), torch.empty(0)))
    dtype = dtype_name(place.dtype)
    if dtype not in list(DType):
        return f"it is {dtype}, and providers take {', '.join(DType)}"
    case = Case.make(
        after,
        Pass.FORWARD_BACKWARD,
        (1, torch.Size(found.normalized_shape).numel()),
        dtype,
        weight=found.has_weight,
        bias=after is Norm.LAYER_NORM and (found.has_bias or (found.norm is not after and found.has_weight)),
        eps=found.eps,
        convention=found.convention if after is Norm.RMS_NORM else Convention.TORCH,
    )
    if reason := provider.unsupported(case, place.device.type):
        return f"provider {provider.name!r} does not take it: {reason}"
    if provider.is_interpreted(case, place.device.type) and not os.environ.get("TRITON_INTERPRET"):
        return f"provider {provider.name!r} needs a GPU, and it is on {place.device}"
    return None


def _note(found: FoundNorm, after: Norm) -> str | None:
    if found.norm is after:
        return None
    if after is Norm.RMS_NORM:
        return "rows are not centred any more" + (", and the bias is gone" if found.has_bias else "")
    return "rows are centred" + (", and there is a bias of 0" if found.has_weight else "")


def _replacement(found: FoundNorm, after: Norm, provider: str | None) -> nn.Module:
    old = found.module
    weight, bias = (None if name is None else old._parameters[name] for name in (found.weight_name, found.bias_name))
    eps, convention = found.eps, found.convention
    if after is not found.norm:
        weight, bias = _converted(found, after, weight)
        eps, convention = after.default_eps if eps is None else eps, Convention.TORCH
    weight_name, bias_name = (None if weight is None else found.weight_name), (None if bias is None else found.bias_name or "bias")
    input_name = old.input_name if isinstance(old, Keyword) else first_input(old)
    new: nn.Module
    if weight_name not in (None, "weight") or bias_name not in (None, "bias"):
        new = taking(input_name, NamedNorm)(
            after,
            found.normalized_shape,
            eps=eps,
            convention=convention,
            weight_name=weight_name,
            bias_name=bias_name,
            provider=provider,
        )
    elif after is Norm.LAYER_NORM:
        assert eps is not None
        new = taking(input_name, LayerNorm)(found.normalized_shape, eps, False, provider=provider)
    else:
        new = taking(input_name, RMSNorm)(found.normalized_shape, eps, False, convention=convention.value, provider=provider)
    if isinstance(new, Keyword):
        new.input_name = input_name
    new.elementwise_affine = weight is not None
    # A LayerNorm's owner may look at its bias, as PyTorch's encoder layers do: an RMSNorm in its place has none, but has the attribute.
    parameters = {weight_name or "weight": weight, bias_name or "bias": bias}
    # In the order of the old module's, which is that of the state_dict.
    for name in sorted(parameters, key=[*old._parameters, *parameters].index):
        new.register_parameter(name, parameters[name])
    _take_over(old, new)
    return new.train(old.training)


def _converted(found: FoundNorm, after: Norm, weight: nn.Parameter | None) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    """Return weight and bias of a norm of the other kind: the weight itself, where its factor is not 1 + weight."""
    if weight is None:
        return None, None
    if found.convention is Convention.GEMMA:
        weight = nn.Parameter(weight.detach() + 1.0, requires_grad=weight.requires_grad)
    bias = nn.Parameter(torch.zeros_like(weight), requires_grad=weight.requires_grad) if after is Norm.LAYER_NORM else None
    return weight, bias


def _take_over(old: nn.Module, new: nn.Module) -> None:
    """Give a module the hooks and buffers of another and those of its attributes that it has not, such as `variance_epsilon`."""
    new._buffers.update(old._buffers)
    new._non_persistent_buffers_set |= old._non_persistent_buffers_set
    for name, value in vars(old).items():
        # The very dictionaries of hooks: a handle that the user holds still removes its hook. One of torch's flags is called "…_hook".
        if "hook" in name or (not name.startswith("_") and not hasattr(new, name)):
            setattr(new, name, value)


def put(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put a module wherever the other one stands: a shared norm stays shared."""
    for parent, name in list(_places(model, old)):
        parent._modules[name] = new


def _places(model: nn.Module, wanted: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for parent in model.modules():
        for name, child in parent._modules.items():
            if child is wanted:
                yield parent, name


def _keep_from_fast_path(model: nn.Module, norms: set[nn.Module]) -> None:
    """Have PyTorch's encoder layers call their norms: in inference they hand all their parameters to one fused function instead."""
    for module in model.modules():
        parts: set[Any] = set(module.modules())
        if isinstance(module, nn.TransformerEncoder) and parts & norms:
            module.use_nested_tensor = False
        if isinstance(module, nn.TransformerEncoderLayer) and {module.norm1, module.norm2} & norms:
            # "The activation is neither relu nor gelu": the only one of its conditions that nothing but this path reads.
            module.activation_relu_or_gelu = 0
