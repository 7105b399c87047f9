"""Serving by a decoder with a cache of keys and values: reading prompts, and writing one more token of each sequence, greedily.

The cache is the one that `transformers` makes by default, which grows by copying. Tokens are the likeliest ones, drawing them included.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from ..cases.throughput_case import Mode, ThroughputCase

__all__ = ["Decoding", "Prefill", "exact_logits", "served_logits"]


class Prefill:
    """Read the prompts of a batch with every call, and choose the first token that follows each."""

    def __init__(self, model: nn.Module, tokens: Tensor, autocast: AbstractContextManager[Any]) -> None:
        self._model = model
        self._tokens = tokens
        self._autocast = autocast

    def __call__(self) -> Tensor:
        """Return the next token of each sequence: (batch, 1). The cache is made and let go."""
        with self._autocast:
            output = self._model(input_ids=self._tokens, use_cache=True, logits_to_keep=1)
        return _likeliest(output.logits)


class Decoding:
    """Write one more token of each sequence with every call. Call `make_room` before each call, outside the clock.

    `tokens` are all positions of the sequences, of which the first `prompt` are read at once when this is made.
    """

    def __init__(self, model: nn.Module, tokens: Tensor, prompt: int, autocast: AbstractContextManager[Any]) -> None:
        self._model = model
        self._autocast = autocast
        self._room = self._left = tokens.shape[1] - prompt
        with autocast, torch.no_grad():
            output = model(input_ids=tokens[:, :prompt], use_cache=True, logits_to_keep=1)
        self._cache = output.cache
        self._token = self._first = _likeliest(output.logits)

    def make_room(self) -> None:
        """Go back to the prompts when all positions are written."""
        if self._left == 0:
            self.rewind()

    def rewind(self) -> None:
        """Go back to the prompts."""
        if written := self._room - self._left:
            self._cache.crop(-written)
            self._left, self._token = self._room, self._first

    def __call__(self) -> Tensor:
        """Return the next token of each sequence: (batch, 1)."""
        with self._autocast:
            output = self._model(input_ids=self._token, cache=self._cache, use_cache=True)
        self._token = _likeliest(output.logits)
        self._left -= 1
        return self._token


def _likeliest(logits: Tensor) -> Tensor:
    return logits[:, -1:].argmax(-1)


def served_logits(case: ThroughputCase, model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the logits of given tokens the way that they are served, through the cache: (batch, positions, vocabulary).

    The positions are the last one of the prompts for a prefill, all that are written for a decode.
    """
    if case.mode is Mode.PREFILL:
        logits: Tensor = model(input_ids=tokens, use_cache=True, logits_to_keep=1).logits
        return logits
    cache = model(input_ids=tokens[:, : case.prompt], use_cache=True, logits_to_keep=1).cache
    written = torch.split(tokens[:, case.prompt :], 1, dim=1)
    return torch.cat([model(input_ids=token, cache=cache, use_cache=True).logits for token in written], dim=1)


def exact_logits(case: ThroughputCase, model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the logits of the same tokens at the same positions from one pass over all of them, without a cache."""
    logits: Tensor = model(input_ids=tokens, use_cache=False).logits
    return logits[:, -1:] if case.mode is Mode.PREFILL else logits[:, case.prompt :]
