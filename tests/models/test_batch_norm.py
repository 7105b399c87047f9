"""BatchNorm as the contrast: why language models norm each token by itself."""

import pytest
import torch
from torch import nn

from normbench.models.blocks import norm_factory, transformer_stack

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH = 16


class TokenBatchNorm(nn.BatchNorm1d):
    """Norm each channel of (batch, tokens, width) over batch and tokens, as BatchNorm does with positions."""

    def forward(self, x):
        return super().forward(x.flatten(0, -2)).view_as(x)


NORMS = {"batch_norm": TokenBatchNorm, "layer_norm": norm_factory("layer_norm"), "rms_norm": norm_factory("rms_norm")}
PER_TOKEN = ("layer_norm", "rms_norm")


def stack(norm):
    torch.manual_seed(0)
    return transformer_stack(WIDTH, 2, heads=2, causal=True, norm=NORMS[norm]).double()


def tokens(batch=2, length=6):
    return torch.randn(batch, length, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def change(norm, company):
    """Return how far the outputs of the first sequence move when another sequence keeps it company."""
    model, x = stack(norm), tokens()
    alone = model(x)[0]
    return (model(torch.stack((x[0], company)))[0] - alone).abs().max().item()


def test_with_batch_norm_a_sequence_depends_on_its_company_and_per_token_on_none():
    company = 3 * tokens(length=6)[1] + 2
    assert change("batch_norm", company) > 0.1
    assert all(change(norm, company) < 1e-12 for norm in PER_TOKEN)


def seen_from(norm, position):
    """Return which positions of the input the output at one position depends on, through causal attention alone and through the norm."""
    model, x = stack(norm), tokens(batch=1).requires_grad_()
    # Channels are weighted, since their plain sum is the same for any normed token.
    (gradient,) = torch.autograd.grad(model(x)[0, position] @ torch.arange(WIDTH, dtype=torch.float64), x)
    return (gradient[0].abs().amax(-1) > 1e-9).tolist()


def test_batch_norm_lets_a_causal_stack_look_ahead_and_a_norm_per_token_does_not():
    for norm in PER_TOKEN:
        assert seen_from(norm, 2) == [True] * 3 + [False] * 3
    assert seen_from("batch_norm", 2) == [True] * 6


def test_what_leaks_is_enough_to_tell_the_next_token():
    # A norm alone, without weights: from its output at the first position the second input is known, but for its sign.
    x = torch.tensor([[[0.3], [1.7]]], dtype=torch.float64)
    norm = TokenBatchNorm(1, affine=False, eps=1e-3).double()
    first = norm(x)[0, 0, 0].item()
    half = 1e-3**0.5 * abs(first) / (1 - first**2) ** 0.5  # first = -half / sqrt(half^2 + eps), half the distance of the two
    assert x[0, 0, 0].item() + 2 * half == pytest.approx(1.7, rel=1e-9)


def test_batch_norm_computes_another_function_in_inference_and_a_norm_per_token_the_same():
    for norm in NORMS:
        model, x = stack(norm), 2 * tokens() + 1
        trained = model.train()(x)
        difference = (model.eval()(x) - trained).abs().max().item()
        assert difference > 0.1 if norm == "batch_norm" else difference == 0


def test_the_statistics_of_small_batches_are_noisier():
    generator = torch.Generator().manual_seed(0)

    def spread(batch):
        norm = TokenBatchNorm(1, momentum=1.0)
        means = []
        for _ in range(400):
            norm(torch.randn(batch, 1, 1, generator=generator))
            means.append(norm.running_mean.item())
        return torch.tensor(means).std().item()

    # The mean of a batch of n scatters as 1 / sqrt(n): 8 against 32 is twice as noisy.
    assert spread(8) / spread(32) == pytest.approx(2, rel=0.2)


def test_padding_changes_the_other_tokens_under_batch_norm_only():
    short = tokens(batch=1, length=4)
    padded = torch.cat((short, torch.zeros(1, 4, WIDTH, dtype=torch.float64)), 1)
    for norm in NORMS:
        model = stack(norm)
        difference = (model(padded)[:, :4] - model(short)).abs().max().item()
        assert difference > 0.01 if norm == "batch_norm" else difference < 1e-12
