"""The block family: each scheme by the property that defines it."""

from itertools import pairwise
from math import sqrt

import pytest
import torch
from torch import nn

import normbench
from normbench import UsageError
from normbench.cases.case import Norm
from normbench.models.attention import Attention
from normbench.models.blocks import Block, FeedForward, Scheme, Stack, deep_norm_scales, norm_factory, transformer_stack
from normbench.models.toy import ToyLanguageModel

pytestmark = pytest.mark.usefixtures("one_thread")

NORMED = [Scheme.PRE, Scheme.POST, Scheme.SANDWICH, Scheme.DEEP_NORM]


def sizes(trunk):
    """Return the mean length of a token after each block."""
    return [x.norm(dim=-1).mean().item() for x in trunk]


def test_post_ln_leaves_with_sqrt_width_and_pre_ln_with_what_was_added():
    # The figures of a published tutorial, with its seed and its order of draws: x, then the two blocks.
    torch.manual_seed(0)
    x = torch.randn(2, 8, 64)
    post, pre = (Block(FeedForward(64, 128), 64, scheme=scheme) for scheme in (Scheme.POST, Scheme.PRE))
    assert sizes([post(x), pre(x)]) == pytest.approx([8.0, 8.3924], abs=5e-5)


def test_the_trunk_of_pre_ln_grows_block_by_block():
    # The figures of the same tutorial: seed 11, twelve feed-forward blocks and then x, at initialisation.
    torch.manual_seed(11)
    stack = Stack([FeedForward(128) for _ in range(12)], 128)
    x = torch.randn(2, 16, 128)
    published = [11.25, 11.42, 11.68, 11.9, 12.06, 12.32, 12.48, 12.69, 12.92, 13.1, 13.31, 13.49, 13.66]
    assert [round(size, 2) for size in sizes(stack.trunk(x))] == published
    assert stack(x).norm(dim=-1).mean().item() == pytest.approx(sqrt(128), rel=1e-4)


@pytest.mark.parametrize("scheme", [Scheme.POST, Scheme.DEEP_NORM])
@pytest.mark.parametrize("norm", Norm)
def test_a_norm_on_the_trunk_pins_its_size_after_every_block(scheme, norm):
    torch.manual_seed(0)
    stack = transformer_stack(64, 6, heads=4, scheme=scheme, norm=norm_factory(norm))
    assert sizes(stack.trunk(10 * torch.randn(2, 8, 64)))[1:] == pytest.approx([8.0] * 12, rel=1e-4)


def written(scheme, factor):
    """Return the length of what each of four blocks adds to the trunk, with sub-layers whose last weights are `factor` times as large."""
    torch.manual_seed(0)
    stack = Stack([FeedForward(64) for _ in range(4)], 64, scheme=scheme)
    for block in stack.blocks:
        nn.init.normal_(block.sublayer[-1].weight, std=factor * 64**-0.5)
    trunk = list(stack.trunk(torch.randn(2, 8, 64)))
    return [(after - before).norm(dim=-1).max().item() for before, after in pairwise(trunk)]


def test_a_sandwich_bounds_what_a_block_can_add_whatever_its_weights():
    assert all(size <= sqrt(64) * 1.0001 for factor in (1, 1e3) for size in written(Scheme.SANDWICH, factor))
    assert min(written(Scheme.PRE, 1e3)) > 100 * sqrt(64)


def test_without_norms_the_size_multiplies_where_with_pre_ln_it_adds_up():
    # Weights of twice the usual size: a factor a block against a summand a block.
    def growth(scheme):
        torch.manual_seed(0)
        stack = Stack([FeedForward(64) for _ in range(12)], 64, scheme=scheme)
        for block in stack.blocks:
            for linear in (block.sublayer[0], block.sublayer[-1]):
                linear.weight.data.mul_(4)
        found = sizes(stack.trunk(torch.randn(2, 8, 64)))
        return found[6] / found[0], found[12] / found[6]

    first, second = growth(Scheme.NO_NORM)
    assert min(first, second) > 50
    first, second = growth(Scheme.PRE)
    assert second < first < 20


@pytest.mark.parametrize("layers", [1, 6, 100])
def test_deep_norms_scales_are_those_of_the_paper(layers):
    alpha, beta = deep_norm_scales(2 * layers)
    assert alpha == pytest.approx((2 * layers) ** (1 / 4))
    assert beta == pytest.approx((8 * layers) ** (-1 / 4))


@pytest.mark.parametrize("sublayers", [1, 7, 200])
def test_deep_norm_bounds_the_update_of_any_number_of_sub_layers_alike(sublayers):
    alpha, beta = deep_norm_scales(sublayers)
    assert sublayers * 2 * beta**2 / alpha**2 == pytest.approx(1)


def test_deep_norm_scales_the_trunk_by_alpha_and_what_writes_by_beta():
    torch.manual_seed(0)
    layers, width = 4, 256
    stack = transformer_stack(width, layers, heads=4, scheme="deep_norm")
    alpha, beta = deep_norm_scales(2 * layers)
    attention, feed_forward = stack.blocks[0].sublayer, stack.blocks[1].sublayer
    x = torch.randn(2, 8, width)
    block = stack.blocks[0]
    torch.testing.assert_close(block(x), nn.functional.layer_norm(alpha * x + attention(x), (width,)))
    # Xavier's normal law: std = gain * sqrt(2 / (inputs + outputs)).
    for linear, gain in (
        (attention.query, 1),
        (attention.key, 1),
        (attention.value, beta),
        (attention.output, beta),
        (feed_forward[0], beta),
        (feed_forward[2], beta),
    ):
        assert linear.weight.std().item() == pytest.approx(gain * sqrt(2 / sum(linear.weight.shape)), rel=0.02)
        assert not linear.bias.any()


@pytest.mark.parametrize("norm", Norm)
def test_qk_norm_gives_queries_and_keys_of_every_head_one_length(norm):
    torch.manual_seed(0)
    attention, found = Attention(64, 4, qk_norm=norm_factory(norm)), []
    for module in (attention.query, attention.key):
        module.weight.data.mul_(100)
    for module in (attention.query_norm, attention.key_norm):
        module.register_forward_hook(lambda _, __, y: found.append(y))
    attention(torch.randn(2, 8, 64))
    query, key = found
    for vectors in found:
        assert vectors.shape == (2, 4, 8, 16)
        torch.testing.assert_close(vectors.norm(dim=-1), torch.full((2, 4, 8), sqrt(16)), rtol=1e-4, atol=0)
    # So no logit of the softmax is larger than sqrt(d_k), however large the projections.
    assert (query @ key.mT / sqrt(16)).abs().max() <= sqrt(16) * 1.0001


def test_qk_norm_costs_two_norms_of_a_heads_width():
    plain, normed = (Attention(64, 4, qk_norm=qk_norm) for qk_norm in (None, norm_factory("rms_norm")))
    assert sum(p.numel() for p in normed.parameters()) - sum(p.numel() for p in plain.parameters()) == 2 * 16


@pytest.mark.parametrize("qk_norm", [None, nn.LayerNorm], ids=["plain", "qk_norm"])
def test_causal_attention_looks_only_back_and_other_attention_both_ways(qk_norm):
    torch.manual_seed(0)
    x = torch.randn(1, 6, 32, dtype=torch.float64, requires_grad=True)
    for causal in (True, False):
        attention = Attention(32, 2, causal=causal, qk_norm=qk_norm).double()
        (seen,) = torch.autograd.grad(attention(x)[0, 2].sum(), x)
        assert seen[0].any(-1).tolist() == [True] * 3 + [not causal] * 3


@pytest.mark.parametrize("scheme", Scheme)
def test_only_a_trunk_that_is_added_to_ends_in_a_norm_unless_told(scheme):
    added_to = scheme in (Scheme.PRE, Scheme.SANDWICH)
    for asked, wanted in ((None, added_to), (True, True), (False, False)):
        stack = Stack([FeedForward(8)], 8, scheme=scheme, final_norm=asked)
        assert isinstance(stack.final_norm, nn.LayerNorm) is wanted


@pytest.mark.parametrize(("scheme", "count"), [("no_norm", 0), ("pre", 5), ("post", 4), ("sandwich", 9), ("deep_norm", 4)])
def test_number_of_norms_of_two_layers(scheme, count):
    stack = transformer_stack(8, 2, heads=2, scheme=scheme)
    assert sum(isinstance(module, nn.LayerNorm) for module in stack.modules()) == count


@pytest.mark.parametrize("scheme", NORMED)
def test_norms_are_of_the_kind_and_by_the_provider_asked_for(scheme):
    for norm, kind in (("layer_norm", normbench.nn.LayerNorm), (Norm.RMS_NORM, normbench.nn.RMSNorm)):
        factory = norm_factory(norm, provider="eager", eps=1e-4)
        model = ToyLanguageModel(layers=1, width=16, heads=2, scheme=scheme, norm=factory, qk_norm=factory)
        norms = [module for module in model.modules() if isinstance(module, kind)]
        assert norms
        assert {(module.provider, module.eps) for module in norms} == {("eager", 1e-4)}
        model(torch.zeros(1, 3, dtype=torch.int64)).sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters() if parameter is not model.position.weight)


def test_the_toy_predicts_from_what_came_before():
    torch.manual_seed(0)
    model, tokens = ToyLanguageModel(), torch.randint(0, 64, (2, 10))
    before, other = model(tokens), tokens.clone()
    other[:, 6] = (other[:, 6] + 1) % 64
    after = model(other)
    torch.testing.assert_close(after[:, :6], before[:, :6])
    assert (after[:, 6:] - before[:, 6:]).abs().amax(-1).min() > 1e-5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Attention(10, 3), "3 heads do not divide a width of 10"),
        (lambda: Stack([FeedForward(8)], 8, scheme="side"), "scheme 'side' is unknown; known are no_norm, pre, post, sandwich, deep_norm"),
        (lambda: Stack([], 8), "a stack without sub-layers"),
        (lambda: norm_factory("batch_norm"), "norm 'batch_norm' is unknown; known are layer_norm, rms_norm"),
    ],
)
def test_what_cannot_be_built_says_why(make, message):
    with pytest.raises(UsageError, match=message):
        make()
