"""Modules that stand in for `torch.nn.LayerNorm` and `torch.nn.RMSNorm` and let a provider do the work.

They are subclasses: the same arguments, parameters and state_dict keys, and `isinstance` finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .functional import apply

__all__ = ["LayerNorm", "RMSNorm"]

# A symbolic trace takes a norm as one call, as it does PyTorch's own: what a provider does depends on the tensors.
torch.fx.wrap("apply")


class LayerNorm(torch.nn.LayerNorm):
    """Apply LayerNorm (arXiv:1607.06450) by `provider`: a name or a file; by default triton on a GPU and aten elsewhere.

    The other arguments are those of torch.nn.LayerNorm. y has the shape and dtype of x.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        provider: str | None = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.provider = provider

    def forward(self, input: Tensor) -> Tensor:
        """Norm the last dimensions of a tensor (..., *normalized_shape)."""
        return apply(
            "layer_norm", input, self.weight, self.bias, normalized_shape=self.normalized_shape, eps=self.eps, provider=self.provider
        )

    def extra_repr(self) -> str:
        """Return the arguments shown by `print`."""
        return f"{super().extra_repr()}, provider={self.provider}"


class RMSNorm(torch.nn.RMSNorm):
    """Apply RMSNorm (arXiv:1910.07467) by `provider`: a name or a file; by default triton on a GPU and aten elsewhere.

    The other arguments are those of torch.nn.RMSNorm; `convention` is torch, llama or gemma (see `Case`), and gemma's weight, to which
    1 is added, starts at 0. y has the shape and dtype of x.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        convention: str = "torch",
        provider: str | None = None,
    ) -> None:
        self.convention = convention
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        self.provider = provider

    def reset_parameters(self) -> None:
        """Set the weight so that the factor is 1."""
        if self.elementwise_affine:
            torch.nn.init.constant_(self.weight, 0.0 if self.convention == "gemma" else 1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Norm the last dimensions of a tensor (..., *normalized_shape)."""
        return apply(
            "rms_norm",
            x,
            self.weight,
            normalized_shape=self.normalized_shape,
            eps=self.eps,
            convention=self.convention,
            provider=self.provider,
        )

    def extra_repr(self) -> str:
        """Return the arguments shown by `print`."""
        return f"{super().extra_repr()}, convention={self.convention}, provider={self.provider}"
