"""Norms that keep the names of the class that they replace: of its input, for calls by keyword, and of its parameters, for checkpoints."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..cases.case import Convention, Norm
from ..functional import apply
from ..nn import LayerNorm, RMSNorm

__all__ = ["Keyword", "KeywordLayerNorm", "KeywordNamedNorm", "KeywordRMSNorm", "NamedNorm", "taking"]


Kind = TypeVar("Kind", bound=nn.Module)


# See `nn`.
torch.fx.wrap("apply")


class NamedNorm(nn.Module):
    """Apply a norm by `provider` with the parameters of the names `weight_name` and `bias_name`, None for none.

    They are registered by whoever makes the module, with the shape `normalized_shape`. y has the shape and dtype of x.
    """

    def __init__(
        self,
        norm: Norm,
        normalized_shape: tuple[int, ...],
        *,
        eps: float | None,
        convention: Convention,
        weight_name: str | None,
        bias_name: str | None,
        provider: str | None,
    ) -> None:
        super().__init__()
        self.norm = norm
        self.normalized_shape = normalized_shape
        self.eps = eps
        self.convention = convention.value
        self.weight_name = weight_name
        self.bias_name = bias_name
        self.provider = provider

    def forward(self, x: Tensor) -> Tensor:
        """Norm the last dimensions of a tensor (..., *normalized_shape)."""
        return apply(
            self.norm.value,
            x,
            None if self.weight_name is None else getattr(self, self.weight_name),
            None if self.bias_name is None else getattr(self, self.bias_name),
            normalized_shape=self.normalized_shape,
            eps=self.eps,
            convention=self.convention,
            provider=self.provider,
        )

    def extra_repr(self) -> str:
        """Return the arguments shown by `print`."""
        return f"{self.norm.value}, {self.normalized_shape}, eps={self.eps}, convention={self.convention}, provider={self.provider}"


class Keyword:
    """Mark a norm that takes its input by the name `input_name` too, as in `norm(hidden_states=x)`."""

    input_name: str | None = None


def _taken(by_name: dict[str, Tensor], norm: Keyword) -> Tensor:
    """Take the input out of what was given by name. Raises TypeError where it is not there."""
    if norm.input_name not in by_name:
        raise TypeError(f"{type(norm).__name__} takes an input, by place or as {norm.input_name}")
    return by_name.pop(norm.input_name)


class KeywordLayerNorm(LayerNorm, Keyword):
    """LayerNorm by a provider that takes its input by a name more."""

    def forward(self, input: Tensor | None = None, **by_name: Tensor) -> Tensor:
        """Norm the last dimensions of a tensor (..., *normalized_shape)."""
        # Named, not by super(): a norm of a token is short, and so must be the way to it.
        return LayerNorm.forward(self, _taken(by_name, self) if input is None else input, **by_name)


class KeywordRMSNorm(RMSNorm, Keyword):
    """RMSNorm by a provider that takes its input by a name more."""

    def forward(self, x: Tensor | None = None, **by_name: Tensor) -> Tensor:
        """Norm the last dimensions of a tensor (..., *normalized_shape)."""
        return RMSNorm.forward(self, _taken(by_name, self) if x is None else x, **by_name)


class KeywordNamedNorm(NamedNorm, Keyword):
    """NamedNorm that takes its input by a name more."""

    def forward(self, x: Tensor | None = None, **by_name: Tensor) -> Tensor:
        """Norm the last dimensions of a tensor (..., *normalized_shape)."""
        return NamedNorm.forward(self, _taken(by_name, self) if x is None else x, **by_name)


_KEYWORDS: dict[type[nn.Module], Any] = {LayerNorm: KeywordLayerNorm, RMSNorm: KeywordRMSNorm, NamedNorm: KeywordNamedNorm}


def taking(input_name: str | None, kind: type[Kind]) -> type[Kind]:
    """Return a class of norms as it is where its input is called so, or where the name is None; else its `Keyword` one."""
    own = list(inspect.signature(kind.forward).parameters)[1]
    found: type[Kind] = kind if input_name in (None, own) else _KEYWORDS[kind]
    return found
