"""The original Transformer: Post-LN in both stacks, causal in the decoder."""

import pytest
import torch
from torch import nn

from normbench.models.transformer import Transformer, waves

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Transformer(32, 2, 4, 64, 50)


@pytest.fixture
def tokens():
    return torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(1))


def test_every_sub_layer_has_one_norm_and_no_stack_another(model):
    norms = [name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 2 * 3
    assert not [name for name in norms if name.endswith(("encoder.norm", "decoder.norm"))]


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_trunk_leaves_a_stack_with_the_size_sqrt_width(model, tokens, mode):
    # No norm is bypassed in inference either: each is called.
    calls, norms = [], [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    hooks = [norm.register_forward_hook(lambda module, _, y: calls.append((id(module), y))) for norm in norms]
    getattr(model, mode)()
    with torch.no_grad():
        hidden = model.body(model._embed(tokens), model._embed(tokens))
    model.train()
    for hook in hooks:
        hook.remove()
    assert {name for name, _ in calls} == {id(norm) for norm in norms}
    torch.testing.assert_close(hidden.norm(dim=-1), torch.full((2, 7), 32**0.5), rtol=1e-4, atol=0)


def test_a_target_token_changes_no_logits_before_it_and_a_source_token_changes_all(model, tokens):
    before = model(tokens, tokens)
    other = tokens.clone()
    other[:, 4] = (other[:, 4] + 1) % 50
    after = model(tokens, other)
    torch.testing.assert_close(after[:, :4], before[:, :4])
    assert (after[:, 4:] - before[:, 4:]).abs().amax(-1).min() > 1e-3
    assert (model(other, tokens) - before).abs().amax(-1).min() > 1e-4


def test_embeddings_and_head_are_one_weight(model):
    assert model.head.weight is model.embedding.weight
    assert sum(parameter.numel() == 50 * 32 for parameter in model.parameters()) == 1


def test_positions_are_waves_of_growing_length():
    found = waves(300, 6, like=torch.empty(0, dtype=torch.float64))
    for position in (0, 1, 257):
        angles = [position / 10_000 ** (column / 6) for column in (0, 2, 4)]
        wanted = [wave for angle in angles for wave in (torch.sin(torch.tensor(angle)), torch.cos(torch.tensor(angle)))]
        torch.testing.assert_close(found[position].float(), torch.stack(wanted), rtol=0, atol=1e-4)


def test_it_computes_in_16_bits(tokens):
    assert Transformer(32, 1, 4, 64, 50).bfloat16()(tokens, tokens).dtype == torch.bfloat16
