"""Norms in any module tree, known by what they compute and not by their names.

A candidate is a module whose parameters are at most a weight and a bias of one shape, and whose parts have none. A copy of it with tensors
of its own is run on made-up inputs, and what comes out is compared with the formulas of `reference.py`: see `probe.py`. The model
itself is only read: its parameters, gradients, mode and hooks and torch's generators stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from ..cases.case import Case, Convention, Norm, Pass
from ..functional import default_eps
from ..nn import LayerNorm, RMSNorm
from ..oracle.problem import dtype_of
from .named import NamedNorm
from .probe import Behaviour, probe

__all__ = ["FoundNorm", "Left", "case_of_call", "find_norms", "survey"]

_OTHER_NORMS = (
    (nn.modules.batchnorm._BatchNorm, "it normalises over the batch, and a row's result depends on the others"),
    (nn.GroupNorm, "it normalises over groups of channels and over positions"),
    (nn.modules.instancenorm._InstanceNorm, "it normalises each channel over positions"),
    (nn.LocalResponseNorm, "it normalises over neighbouring channels"),
)
"""PyTorch's norms that are neither LayerNorm nor RMSNorm, and why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNorm:
    """Hold a norm that a model has: where, its module, and what it computes.

    `name` is the path of the module in the model, the first one where it stands in several places. `normalized_shape` holds the last
    dimensions that the norm runs over. `eps` None means the machine epsilon of the computation, as in torch.nn.RMSNorm. `convention`
    says where an RMSNorm rounds (see `Case`). `weight_name` and `bias_name` are those of the module's parameters, None where it has none.
    """

    name: str
    module: nn.Module
    norm: Norm
    normalized_shape: tuple[int, ...]
    eps: float | None
    convention: Convention
    weight_name: str | None
    bias_name: str | None

    @property
    def has_weight(self) -> bool:
        return self.weight_name is not None

    @property
    def has_bias(self) -> bool:
        return self.bias_name is not None

    @property
    def parameters(self) -> int:
        """Return the number of parameters of the module."""
        return sum(parameter.numel() for parameter in self.module.parameters())


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Name a module that is no norm to be swapped, and why."""

    name: str
    reason: str


def find_norms(model: nn.Module) -> tuple[FoundNorm, ...]:
    """Return every LayerNorm and RMSNorm of a model in the order of `named_modules`, each once."""
    return survey(model)[0]


def survey(model: nn.Module) -> tuple[tuple[FoundNorm, ...], tuple[Left, ...]]:
    """Return the norms, as `find_norms` does, and the modules that only look like one, with the reason of each.

    Those are norms of another kind, modules that come near a norm, and those that are called one and compute none.
    """
    seen = list(_looked_at(model))
    return tuple(one for one in seen if isinstance(one, FoundNorm)), tuple(one for one in seen if isinstance(one, Left))


def case_of_call(found: FoundNorm, x: Tensor, pass_: Pass) -> Case | None:
    """Return the call of a norm with x as a case of the op tier; None where x or the weight has a dtype that no case has.

    A norm over several dimensions is a case over their product.
    """
    weight = None if found.weight_name is None else getattr(found.module, found.weight_name)
    dtype, weight_dtype = dtype_of(x.dtype), None if weight is None else dtype_of(weight.dtype)
    if dtype is None or (weight is not None and weight_dtype is None):
        return None
    outer = x.ndim - len(found.normalized_shape)
    return Case.make(
        found.norm,
        pass_,
        (*x.shape[:outer], x.shape[outer:].numel()),
        dtype,
        weight=weight is not None,
        weight_dtype=weight_dtype,
        bias=found.has_bias,
        eps=default_eps(found.norm, x.dtype) if found.eps is None else found.eps,
        convention=found.convention,
    )


def _looked_at(model: nn.Module) -> Iterator[FoundNorm | Left]:
    for name, module in model.named_modules():
        if "parametrizations" in name.split("."):
            continue
        if isinstance(module, LayerNorm | RMSNorm | NamedNorm):
            yield _of_our_own(name, module)
            continue
        kind = type(module).__name__
        if reason := next((why for other, why in _OTHER_NORMS if isinstance(module, other)), None):
            yield Left(name=name, reason=f"{kind}: {reason}")
        elif "parametrizations" in module._modules and _is_called_norm(module):
            yield Left(name=name, reason=f"{kind}: its parameters are computed anew from others at every call")
        elif _is_candidate(module):
            found = probe(module)
            if isinstance(found, Behaviour):
                yield FoundNorm(
                    name=name,
                    module=module,
                    norm=found.norm,
                    normalized_shape=found.normalized_shape,
                    eps=found.eps,
                    convention=found.convention,
                    weight_name=found.weight_name,
                    bias_name=found.bias_name,
                )
            elif found.is_near or _is_called_norm(module):
                yield Left(name=name, reason=f"{kind}: {found.reason}")


def _of_our_own(name: str, module: LayerNorm | RMSNorm | NamedNorm) -> FoundNorm:
    """Return what a module of this package says of itself: its provider may compile, or not run on this machine at all."""
    if isinstance(module, NamedNorm):
        return FoundNorm(
            name=name,
            module=module,
            norm=module.norm,
            normalized_shape=module.normalized_shape,
            eps=module.eps,
            convention=Convention(module.convention),
            weight_name=module.weight_name,
            bias_name=module.bias_name,
        )
    return FoundNorm(
        name=name,
        module=module,
        norm=Norm.LAYER_NORM if isinstance(module, LayerNorm) else Norm.RMS_NORM,
        normalized_shape=tuple(module.normalized_shape),
        eps=module.eps,
        convention=Convention.TORCH if isinstance(module, LayerNorm) else Convention(module.convention),
        weight_name=None if module.weight is None else "weight",
        bias_name=None if getattr(module, "bias", None) is None else "bias",
    )


def _is_called_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower()


def _is_candidate(module: nn.Module) -> bool:
    """Say whether a module's form is that of a norm: at most two parameters, of one shape, and none in its parts.

    One vector, or two, may be a norm whatever the class is called. A matrix is a linear map or a table, and no parameter at all is any
    function, unless an attribute or the class says otherwise.
    """
    if any(True for part in module.children() for _ in part.parameters()):
        return False
    shapes = [tuple(parameter.shape) for parameter in module.parameters(recurse=False)]
    if len(shapes) > 2 or len(set(shapes)) > 1:
        return False
    return (bool(shapes) and len(shapes[0]) == 1) or hasattr(module, "normalized_shape") or _is_called_norm(module)
