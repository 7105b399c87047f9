"""Attention as one sub-layer of a block: causal or not, with normed queries and keys (QK-Norm) or not."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError

__all__ = ["Attention"]


class Attention(nn.Module):
    """Mix the tokens of (batch, tokens, width) by scaled dot-product attention with `heads` heads of width / heads each.

    `qk_norm` makes a norm of a head's width; it is applied to queries and keys per head, the same weights for all heads, and not to values:
    LayerNorm in ViT-22B (arXiv:2302.05442), RMSNorm in Qwen3 (arXiv:2505.09388). With weights of 1 each has the length
    sqrt(width / heads), so no logit leaves +-sqrt(width / heads). Raises UsageError for a width that heads do not divide.
    """

    def __init__(self, width: int, heads: int, *, causal: bool = True, qk_norm: Callable[[int], nn.Module] | None = None) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise UsageError(f"{heads} heads do not divide a width of {width}: give a divisor of the width")
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.query_norm = nn.Identity() if qk_norm is None else qk_norm(width // heads)
        self.key_norm = nn.Identity() if qk_norm is None else qk_norm(width // heads)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x, (batch, tokens, width)."""
        query, key, value = (linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(self.query_norm(query), self.key_norm(key), value, is_causal=self.causal)
        y: Tensor = self.output(mixed.transpose(1, 2).flatten(-2))
        return y
