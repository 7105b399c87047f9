"""The rule that the toy networks learn, and the losses that no predictor can beat.

A sequence's first token, uniform over the vocabulary, names one of `KEYS` permutations (token modulo KEYS). Each next token is that
permutation of the one before, or with probability `NOISE` uniform. A network that mixes positions can find out which permutation a
sequence uses; one that sees only the current token cannot, and is left with the mixture of them all.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["KEYS", "LENGTH", "NOISE", "RULE_SEED", "VOCABULARY", "best_loss", "sequences"]

VOCABULARY, LENGTH, KEYS, NOISE = 64, 16, 8, 0.1
RULE_SEED = 64
"""The permutations are the same for every study and seed."""


def _permutations() -> Tensor:
    generator = torch.Generator().manual_seed(RULE_SEED)
    return torch.stack([torch.randperm(VOCABULARY, generator=generator) for _ in range(KEYS)])


def sequences(count: int, generator: torch.Generator) -> Tensor:
    """Return sequences of LENGTH + 1 tokens (count, LENGTH + 1), int64: LENGTH inputs and, one later, their targets."""
    permutations = _permutations()
    tokens = torch.empty(count, LENGTH + 1, dtype=torch.int64)
    tokens[:, 0] = torch.randint(VOCABULARY, (count,), generator=generator)
    key = tokens[:, 0] % KEYS
    for place in range(LENGTH):
        stray = torch.rand(count, generator=generator) < NOISE
        anything = torch.randint(VOCABULARY, (count,), generator=generator)
        tokens[:, place + 1] = torch.where(stray, anything, permutations[key, tokens[:, place]])
    return tokens


def best_loss(*, sees_key: bool) -> float:
    """Return the least mean cross-entropy in nats, for a predictor that knows a sequence's permutation or only the current token.

    The latter knows neither the place nor any earlier token: it is left with the entropy of the next token given the current one, exact
    over all places.
    """
    following = torch.zeros(KEYS, VOCABULARY, VOCABULARY, dtype=torch.float64) + NOISE / VOCABULARY
    following.scatter_add_(2, _permutations()[:, :, None], torch.full((KEYS, VOCABULARY, 1), 1 - NOISE, dtype=torch.float64))
    if sees_key:
        return _entropy(following[0, 0])
    # How likely a key and a token are together, place by place: at the first place the token names the key.
    together = torch.eye(KEYS, dtype=torch.float64).repeat(1, VOCABULARY // KEYS) / VOCABULARY
    pairs = torch.zeros(VOCABULARY, VOCABULARY, dtype=torch.float64)
    for _ in range(LENGTH):
        pairs += torch.einsum("kx,kxy->xy", together, following) / LENGTH
        together = torch.einsum("kx,kxy->ky", together, following)
    return _entropy(pairs.flatten()) - _entropy(pairs.sum(1))


def _entropy(chances: Tensor) -> float:
    """Return the entropy in nats of chances that add up to 1, none of them 0."""
    return float(-(chances * chances.log()).sum())
