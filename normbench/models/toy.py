"""A toy language model of a few small blocks, for experiments on where norms stand and for tests."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .blocks import NormFactory, Scheme, transformer_stack

__all__ = ["ToyLanguageModel"]


class ToyLanguageModel(nn.Module):
    """Predict the next token by embeddings of tokens and positions, a causal stack (see `transformer_stack`) and a head without bias."""

    def __init__(
        self,
        vocabulary: int = 64,
        length: int = 64,
        width: int = 64,
        layers: int = 4,
        heads: int = 4,
        hidden: int | None = None,
        *,
        scheme: Scheme | str = Scheme.PRE,
        norm: NormFactory = nn.LayerNorm,
        qk_norm: NormFactory | None = None,
        final_norm: bool | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.stack = transformer_stack(
            width, layers, heads=heads, hidden=hidden, scheme=scheme, norm=norm, qk_norm=qk_norm, final_norm=final_norm
        )
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (batch, tokens, vocabulary) for token ids (batch, tokens), int64, at most `length` of them a row."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        logits: Tensor = self.head(self.stack(self.embedding(tokens) + self.position(places)))
        return logits
