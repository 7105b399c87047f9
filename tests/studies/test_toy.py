"""The toy networks: what mixes positions, where norms stand, and what the final norm is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from normbench.models.blocks import Scheme
from normbench.studies.rule import LENGTH, VOCABULARY
from normbench.studies.toy import WIDTH, RunningMean, ToyNetwork

TOKENS = torch.arange(2 * LENGTH).reshape(2, LENGTH) % VOCABULARY


def norms(model):
    return [type(part) for part in model.modules() if isinstance(part, nn.LayerNorm | nn.RMSNorm)]


@pytest.mark.parametrize("mixer", ["linear", "mean", "attention"])
def test_no_token_sees_a_later_one(mixer):
    torch.manual_seed(0)
    model = ToyNetwork(2, mixer=mixer)
    other = TOKENS.clone()
    other[:, -1] += 1
    with torch.no_grad():
        torch.testing.assert_close(model(TOKENS)[:, :-1], model(other)[:, :-1], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("mixer", "mixes"), [("linear", False), ("mean", True), ("attention", True)])
def test_only_some_mixers_carry_anything_from_one_place_to_another(mixer, mixes):
    torch.manual_seed(0)
    model = ToyNetwork(2, mixer=mixer)
    other = TOKENS.clone()
    other[:, 0] += 1
    with torch.no_grad():
        changed = (model(TOKENS)[:, -1] - model(other)[:, -1]).abs().max() > 1e-6
    assert bool(changed) is mixes


def test_running_mean_is_the_mean_of_a_token_and_those_before_it():
    x = torch.randn(1, 5, 3)
    part = RunningMean(3)
    expected = part.linear(torch.stack([x[:, : place + 1].mean(1) for place in range(5)], 1))
    torch.testing.assert_close(part(x), expected)


def test_blocks_have_two_norms_a_layer_and_the_final_norm_is_a_layer_norm_whatever_they_are():
    assert norms(ToyNetwork(3, norm="rms_norm")).count(nn.LayerNorm) == 1
    assert len(norms(ToyNetwork(3, norm="rms_norm"))) == 2 * 3 + 1
    assert norms(ToyNetwork(3, norm="none")) == [nn.LayerNorm]
    assert len(norms(ToyNetwork(3, scheme=Scheme.POST))) == 2 * 3
    assert norms(ToyNetwork(3, norm="none", final_norm=False)) == []


def test_exit_is_the_trunk_before_the_final_norm():
    model = ToyNetwork(2, scheme=Scheme.POST)
    model(TOKENS)
    assert float(model.last_exit) == pytest.approx(WIDTH**0.5, rel=1e-3)
    assert model(TOKENS).shape == (2, LENGTH, VOCABULARY)


def test_without_residual_the_first_loss_is_that_of_a_guess():
    torch.manual_seed(0)
    model = ToyNetwork(20, norm="none", final_norm=False, residual=False)
    with torch.no_grad():
        spread = model(TOKENS).std(-1).max()
    assert spread < 0.2
