"""The toy networks: embedding, blocks of a mixer and a feed-forward, and a head, after the published sketch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..models.attention import Attention
from ..models.blocks import FeedForward, NormFactory, Scheme, Stack
from .rule import VOCABULARY

__all__ = ["HIDDEN", "NORMS", "WIDTH", "RunningMean", "ToyNetwork"]

WIDTH, HIDDEN = 64, 128


class RMSNorm(nn.RMSNorm):
    """RMSNorm with the published sketch's eps."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1e-6)


NORMS: dict[str, NormFactory] = {"layer_norm": nn.LayerNorm, "rms_norm": RMSNorm}


class RunningMean(nn.Module):
    """Map each token of (batch, tokens, width) by a linear layer of the mean of itself and all tokens before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        counts = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        y: Tensor = self.linear(x.cumsum(1) / counts[:, None])
        return y


class Chain(nn.Module):
    """Chain sub-layers without residuals and without norms, as the contrast to a `Stack`."""

    def __init__(self, sublayers: list[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(sublayers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the last sub-layer's output, of the shape of x."""
        for block in self.blocks:
            x = block(x)
        return x


class ToyNetwork(nn.Module):
    """Predict the next token from tokens (batch, tokens): `depth` layers of a mixer and a feed-forward, two sub-layers each.

    `mixer` is `linear` (each position by itself, as in the published code), `mean` (running means, as in its text) or `attention`, then
    with or without `qk_norm`. `final_norm` None puts a LayerNorm before the head of Pre-LN, Sandwich and networks without norms whatever
    the norm of their blocks, as published. `last_exit` holds the mean token norm before that norm, of the last forward pass.
    """

    def __init__(
        self,
        depth: int,
        *,
        norm: str = "layer_norm",
        scheme: Scheme = Scheme.PRE,
        mixer: str = "linear",
        qk_norm: bool = False,
        final_norm: bool | None = None,
        residual: bool = True,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        sublayers: list[nn.Module] = []
        for _ in range(depth):
            sublayers += [_mixer(mixer, qk_norm), FeedForward(WIDTH, HIDDEN)]
        has_none = norm == "none"
        self.stack: nn.Module = (
            Stack(
                sublayers,
                WIDTH,
                scheme=Scheme.NO_NORM if has_none else scheme,
                norm=NORMS["layer_norm" if has_none else norm],
                final_norm=False,
            )
            if residual
            else Chain(sublayers)
        )
        wants_final = has_none or scheme.needs_final_norm if final_norm is None else final_norm
        self.final_norm = nn.LayerNorm(WIDTH) if wants_final else nn.Identity()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.last_exit = torch.zeros(())

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (batch, tokens, vocabulary)."""
        x = self.stack(self.embedding(tokens))
        self.last_exit = torch.linalg.vector_norm(x.detach(), dim=-1).mean()
        logits: Tensor = self.head(self.final_norm(x))
        return logits


def _mixer(kind: str, qk_norm: bool) -> nn.Module:
    if kind == "attention":
        return Attention(WIDTH, 4, causal=True, qk_norm=RMSNorm if qk_norm else None)
    return RunningMean(WIDTH) if kind == "mean" else nn.Linear(WIDTH, WIDTH)
