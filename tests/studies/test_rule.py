"""The task: each token follows from the one before by a permutation that the first token names, or now and then from nothing."""

from __future__ import annotations

from math import log

import pytest
import torch

from normbench.studies.rule import KEYS, LENGTH, NOISE, VOCABULARY, best_loss, sequences


@pytest.fixture(scope="module")
def tokens():
    return sequences(4096, torch.Generator().manual_seed(0))


def test_sequences_are_inputs_and_one_target_more(tokens):
    assert tokens.shape == (4096, LENGTH + 1)
    assert tokens.min() >= 0
    assert tokens.max() < VOCABULARY


def test_a_seed_gives_the_same_sequences(tokens):
    assert torch.equal(tokens, sequences(4096, torch.Generator().manual_seed(0)))
    assert not torch.equal(tokens, sequences(4096, torch.Generator().manual_seed(1)))


def test_next_token_is_named_by_key_and_token_but_for_the_noise(tokens):
    key = tokens[:, 0] % KEYS
    pairs = torch.stack([key.repeat_interleave(LENGTH), tokens[:, :-1].flatten(), tokens[:, 1:].flatten()])
    counts = torch.zeros(KEYS, VOCABULARY, VOCABULARY)
    counts.index_put_(tuple(pairs), torch.ones(pairs.shape[1]), accumulate=True)
    followed = counts.amax(-1).sum() / counts.sum()
    assert followed == pytest.approx(1 - NOISE + NOISE / VOCABULARY, abs=0.01)


def test_best_loss_is_the_entropy_of_the_noise():
    right = 1 - NOISE + NOISE / VOCABULARY
    wrong = NOISE / VOCABULARY
    assert best_loss(sees_key=True) == pytest.approx(-right * log(right) - (VOCABULARY - 1) * wrong * log(wrong))


def test_best_loss_without_the_key_is_what_counting_gives():
    # Of many sequences the frequencies of pairs of tokens give the entropy that a predictor of the current token alone is left with.
    many = sequences(60_000, torch.Generator().manual_seed(2))
    counts = torch.zeros(VOCABULARY, VOCABULARY)
    counts.index_put_((many[:, :-1].flatten(), many[:, 1:].flatten()), torch.ones(many[:, 1:].numel()), accumulate=True)
    chances = counts / counts.sum(-1, keepdim=True)
    entropy = -(counts / counts.sum() * chances.clamp_min(1e-30).log()).sum()
    assert best_loss(sees_key=False) == pytest.approx(float(entropy), abs=0.01)
    assert best_loss(sees_key=True) < best_loss(sees_key=False) < log(VOCABULARY)
