"""The recurrent translator: its cell by the formula, what it sees and what it does not."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from normbench.models.recurrent import GRUTranslator, NormedGRUCell

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def cell():
    torch.manual_seed(0)
    cell = NormedGRUCell(5, 8)
    for parameter in cell.parameters():
        nn.init.normal_(parameter)
    return cell.double()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return GRUTranslator(16, 12, 30)


@pytest.fixture
def tokens():
    return torch.randint(0, 30, (2, 6), generator=torch.Generator().manual_seed(1))


def test_a_step_is_the_formula_of_the_layer_norm_paper(cell):
    x, h = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)

    def normed(module, v):
        return F.layer_norm(v, v.shape[-1:], module.weight, module.bias)

    w, v, u, t = (linear.weight for linear in (cell.input_gates, cell.input_candidate, cell.state_gates, cell.state_candidate))
    z, r = torch.sigmoid(normed(cell.input_gates_norm, x @ w.T) + normed(cell.state_gates_norm, h @ u.T)).split(8, -1)
    c = torch.tanh(normed(cell.input_candidate_norm, x @ v.T) + r * normed(cell.state_candidate_norm, h @ t.T))
    torch.testing.assert_close(cell(x, h), (1 - z) * h + z * c)


def test_inputs_read_at_once_are_those_read_step_by_step(cell):
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    at_once = cell.read(x)
    for step in range(4):
        for whole, part in zip(at_once, cell.read(x[:, step]), strict=True):
            torch.testing.assert_close(whole[:, step], part)


def test_a_cell_does_not_see_the_size_of_its_input_and_state_weights(cell):
    # Why the papers norm recurrent networks: weights that grow change no state. Only eps tells the two apart.
    x, h = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    before = cell(x, h)
    with torch.no_grad():
        for linear in (cell.input_gates, cell.input_candidate, cell.state_gates, cell.state_candidate):
            linear.weight.mul_(1000)
    torch.testing.assert_close(cell(x, h), before, rtol=1e-3, atol=1e-3)


def test_a_target_token_changes_no_logits_before_it(model, tokens):
    before, other = model(tokens, tokens), tokens.clone()
    other[:, 3] = (other[:, 3] + 1) % 30
    after = model(tokens, other)
    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert (after[:, 3:] - before[:, 3:]).abs().amax(-1).min() > 1e-6


def test_the_encoder_reads_in_both_directions(model, tokens):
    before, other = model._encode(tokens), tokens.clone()
    other[:, 3] = (other[:, 3] + 1) % 30
    changed = (model._encode(other) - before).abs() > 1e-7
    forwards, backwards = changed.any(0).split(16, -1)
    assert forwards.any(-1).tolist() == [False] * 3 + [True] * 3
    assert backwards.any(-1).tolist() == [True] * 4 + [False] * 2


def test_every_norm_is_of_the_kind_asked_for_and_is_used(tokens):
    model = GRUTranslator(16, 12, 30, norm=nn.RMSNorm)
    called = set()
    norms = {name: module for name, module in model.named_modules() if name.endswith("norm")}
    assert len(norms) == 3 * 4
    for name, module in norms.items():
        assert isinstance(module, nn.RMSNorm)
        module.register_forward_hook(lambda *_, name=name: called.add(name))
    model(tokens, tokens).sum().backward()
    assert called == norms.keys()
    assert all(parameter.grad is not None for parameter in model.parameters())
