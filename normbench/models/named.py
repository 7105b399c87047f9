"""A norm whose parameters are not called weight and bias, computed by a provider: a checkpoint of the class that it replaces fits it."""

from __future__ import annotations

from torch import Tensor, nn

from ..case import Convention, Norm
from ..functional import apply

__all__ = ["NamedNorm"]


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
        y = apply(
            self.norm.value,
            x,
            None if self.weight_name is None else getattr(self, self.weight_name),
            None if self.bias_name is None else getattr(self, self.bias_name),
            normalized_shape=self.normalized_shape,
            eps=self.eps,
            convention=self.convention,
            provider=self.provider,
        )
        assert isinstance(y, Tensor)
        return y

    def extra_repr(self) -> str:
        """Return the arguments shown by `print`."""
        return f"{self.norm.value}, {self.normalized_shape}, eps={self.eps}, convention={self.convention}, provider={self.provider}"
