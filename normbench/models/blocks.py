"""Residual blocks in every place that a norm may take: none, Pre-LN, Post-LN, Sandwich and DeepNorm, around any sub-layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from torch import Tensor, nn

from .. import nn as provided
from ..cases.case import Norm
from ..errors import UsageError
from ..text.words import member
from .attention import Attention

__all__ = ["Block", "FeedForward", "NormFactory", "Scheme", "Stack", "deep_norm_scales", "norm_factory", "transformer_stack"]

NormFactory = Callable[[int], nn.Module]
"""What makes a norm over a last dimension of a given width."""


class Scheme(StrEnum):
    """Say where the norms of a block stand; f is its sub-layer, x the trunk, y the trunk after it.

    no_norm: y = x + f(x). pre: y = x + f(norm(x)) (arXiv:2002.04745). post: y = norm(x + f(x)) (arXiv:1706.03762).
    sandwich: y = x + norm'(f(norm(x))) (arXiv:2105.13290). deep_norm: y = norm(alpha * x + f(x)) (arXiv:2203.00555).
    """

    NO_NORM = "no_norm"
    PRE = "pre"
    POST = "post"
    SANDWICH = "sandwich"
    DEEP_NORM = "deep_norm"

    @property
    def needs_final_norm(self) -> bool:
        """Say whether the trunk is only added to and so leaves the last block with whatever size it has grown to."""
        return self in (Scheme.PRE, Scheme.SANDWICH)


def norm_factory(norm: Norm | str, *, provider: str | None = None, eps: float | None = None) -> NormFactory:
    """Return what makes norms of one kind, computed by one provider (see `normbench.nn`), with the kind's usual eps unless one is given.

    Raises UsageError for an unknown norm.
    """
    kind = member(Norm, norm, "norm")
    size = kind.default_eps if eps is None else eps
    if kind is Norm.LAYER_NORM:
        return lambda width: provided.LayerNorm(width, eps=size, provider=provider)
    return lambda width: provided.RMSNorm(width, eps=size, provider=provider)


class FeedForward(nn.Sequential):
    """Widen each token of (..., width) to `hidden`, by default 4 * width, apply GELU and narrow it again."""

    def __init__(self, width: int, hidden: int | None = None) -> None:
        hidden = 4 * width if hidden is None else hidden
        super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class Block(nn.Module):
    """Wrap a sub-layer, which keeps the shape (..., width), in a residual connection and the norms of a scheme.

    `alpha` is the factor of the trunk in DeepNorm, and of no use elsewhere.
    """

    def __init__(
        self, sublayer: nn.Module, width: int, *, scheme: Scheme = Scheme.PRE, norm: NormFactory = nn.LayerNorm, alpha: float = 1.0
    ) -> None:
        super().__init__()
        self.scheme, self.alpha = scheme, alpha
        self.sublayer = sublayer
        self.norm = nn.Identity() if scheme is Scheme.NO_NORM else norm(width)
        self.exit_norm = norm(width) if scheme is Scheme.SANDWICH else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return the trunk after this block, of the shape of x."""
        y: Tensor
        match self.scheme:
            case Scheme.NO_NORM:
                y = x + self.sublayer(x)
            case Scheme.PRE:
                y = x + self.sublayer(self.norm(x))
            case Scheme.POST:
                y = self.norm(x + self.sublayer(x))
            case Scheme.SANDWICH:
                y = x + self.exit_norm(self.sublayer(self.norm(x)))
            case Scheme.DEEP_NORM:
                y = self.norm(self.alpha * x + self.sublayer(x))
        return y


class Stack(nn.Module):
    """Chain sub-layers, each in a block of one scheme, over a trunk (..., width).

    A final norm follows if `final_norm` says so; by default where the scheme needs one. DeepNorm sets alpha and draws the weights of the
    sub-layers anew (see `deep_norm_scales`): every nn.Linear by Xavier's normal law with gain beta, or 1 where it is named `query` or
    `key`, biases 0. Raises UsageError for an unknown scheme or no sub-layer.
    """

    def __init__(
        self,
        sublayers: Iterable[nn.Module],
        width: int,
        *,
        scheme: Scheme | str = Scheme.PRE,
        norm: NormFactory = nn.LayerNorm,
        final_norm: bool | None = None,
    ) -> None:
        super().__init__()
        scheme = member(Scheme, scheme, "scheme")
        chain = list(sublayers)
        if not chain:
            raise UsageError("a stack without sub-layers: give at least one")
        alpha, beta = deep_norm_scales(len(chain)) if scheme is Scheme.DEEP_NORM else (1.0, None)
        self.blocks = nn.ModuleList(Block(one, width, scheme=scheme, norm=norm, alpha=alpha) for one in chain)
        self.final_norm = norm(width) if (scheme.needs_final_norm if final_norm is None else final_norm) else nn.Identity()
        if beta is not None:
            for one in chain:
                _draw_for_deep_norm(one, beta)

    def trunk(self, x: Tensor) -> Iterator[Tensor]:
        """Yield the trunk as it comes in and after each block, before any final norm."""
        yield x
        for block in self.blocks:
            x = block(x)
            yield x

    def forward(self, x: Tensor) -> Tensor:
        """Return the trunk after the last block and the final norm, of the shape of x."""
        for block in self.blocks:
            x = block(x)
        y: Tensor = self.final_norm(x)
        return y


def transformer_stack(
    width: int,
    layers: int,
    *,
    heads: int,
    hidden: int | None = None,
    causal: bool = True,
    qk_norm: NormFactory | None = None,
    scheme: Scheme | str = Scheme.PRE,
    norm: NormFactory = nn.LayerNorm,
    final_norm: bool | None = None,
) -> Stack:
    """Return a stack of `layers` times attention and feed-forward over (batch, tokens, width); see `Attention` and `Stack`."""
    sublayers: list[nn.Module] = []
    for _ in range(layers):
        sublayers += Attention(width, heads, causal=causal, qk_norm=qk_norm), FeedForward(width, hidden)
    return Stack(sublayers, width, scheme=scheme, norm=norm, final_norm=final_norm)


def deep_norm_scales(sublayers: int) -> tuple[float, float]:
    """Return DeepNorm's alpha and beta for a stack of so many sub-layers (arXiv:2203.00555, for an encoder or a decoder alone).

    There N layers of two sub-layers each have alpha = (2N)^(1/4) and beta = (8N)^(-1/4). The paper derives them from the number of
    sub-layers S = 2N, such that S * 2 * beta^2 / alpha^2 = 1 bounds an update, and so they are given for any S here.
    """
    return sublayers**0.25, (4 * sublayers) ** -0.25


def _draw_for_deep_norm(sublayer: nn.Module, beta: float) -> None:
    for name, module in sublayer.named_modules():
        if isinstance(module, nn.Linear):
            # Queries and keys only choose what is mixed; they do not change its size.
            nn.init.xavier_normal_(module.weight, gain=1.0 if name in ("query", "key") else beta)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
