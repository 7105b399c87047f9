"""The original Transformer (arXiv:1706.03762): Post-LN, an encoder and a decoder, embeddings and a head, made of torch.nn's own layers."""

from __future__ import annotations

from math import log, sqrt

import torch
from torch import Tensor, nn

__all__ = ["Transformer"]

LONGEST_WAVE = 10_000.0
"""Base of the wave lengths of the positions, 2 pi to 10000 * 2 pi (section 3.5)."""


class Transformer(nn.Module):
    """Translate a source into logits of the next target tokens; every sub-layer is y = LN(x + Sublayer(x)).

    So an encoder layer has 2 norms and a decoder layer 3. torch.nn.Transformer alone would end each stack with another one; the paper's
    trunk, which comes out of a norm, has none there, and so has this one. The two embeddings and the head share one weight, as in section
    3.4. The defaults are the paper's base model without dropout.
    """

    def __init__(
        self, width: int = 512, layers: int = 6, heads: int = 8, hidden: int = 2048, vocabulary: int = 37_000, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width)
        # Nested tensors are for padding, which there is none of, and their path leaves the norms out.
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, heads, hidden, dropout, batch_first=True), layers, enable_nested_tensor=False
        )
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, heads, hidden, dropout, batch_first=True), layers)
        self.body = nn.Transformer(
            width, heads, layers, layers, hidden, dropout, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
        )
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        # Embeddings are multiplied by sqrt(width): the sum with the waves, of size 1, begins balanced, and so do the logits.
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits (batch, target tokens, vocabulary) of the token after each of target.

        source (batch, source tokens) and target (batch, target tokens) are token ids, int64.
        """
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device, dtype=self.embedding.weight.dtype)
        hidden = self.body(self._embed(source), self._embed(target), tgt_mask=mask, tgt_is_causal=True)
        logits: Tensor = self.head(hidden)
        return logits

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(tokens) * sqrt(self.width)
        return embedded + waves(tokens.shape[1], self.width, like=embedded)


def waves(length: int, width: int, *, like: Tensor) -> Tensor:
    """Return the positions (length, width) of section 3.5, like another tensor in dtype and device.

    Even columns hold sines and odd ones cosines.
    """
    # Made in float32: positions beyond 256 are not whole numbers in bfloat16.
    position = torch.arange(length, device=like.device, dtype=torch.float32)[:, None]
    frequency = torch.exp(torch.arange(0, width, 2, device=like.device, dtype=torch.float32) * (-log(LONGEST_WAVE) / width))
    angle = position * frequency
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width].to(like.dtype)
