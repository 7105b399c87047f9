"""The audit: where each norm stands, read off one forward pass, and what is amiss."""

import json
from collections import Counter

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from normbench import UsageError
from normbench.cli.models import models
from normbench.models.audit import audit
from normbench.models.flow import Kind, record
from normbench.models.networks import network
from normbench.models.toy import ToyLanguageModel

from .families import PLACES

pytestmark = pytest.mark.usefixtures("one_thread")


def places(found):
    return {one.name: one.place for one in found.norms}


class Residual(nn.Module):
    """y = x + f(x), or any other join of the two."""

    def __init__(self, function, join=torch.add):
        super().__init__()
        self.function, self.join = function, join

    def forward(self, x):
        return self.join(x, self.function(x))


class Parallel(nn.Module):
    """y = x + f(norm(x)) + g(norm'(x)), as GPT-J has it."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width))
        self.second = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width))

    def forward(self, x):
        return x + self.first(x) + self.second(x)


def chain(*parts):
    """Return a model that takes `x` and the x for it, 8 wide."""

    class Chain(nn.Sequential):
        def forward(self, x):
            return super().forward(x)

    torch.manual_seed(0)
    return Chain(*parts), {"x": torch.randn(2, 3, 8)}


def linear():
    return nn.Linear(8, 8)


def norm():
    return nn.LayerNorm(8)


@pytest.mark.parametrize("name", PLACES)
def test_the_norms_of_every_family_stand_where_the_papers_say(name):
    family = network(name)
    found = audit(family.build("tiny"), family.batch("tiny"))
    assert Counter(one.place for one in found.norms) == PLACES[name]
    assert found.remarks == ()
    assert found.left == ()


@pytest.mark.parametrize("name", ["gpt2", "bert", "qwen3"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_by_hand_or_fused_makes_no_difference(name, attention):
    family = network(name)
    model = family.build("tiny")
    model.set_attn_implementation(attention)
    assert Counter(one.place for one in audit(model, family.batch("tiny")).norms) == PLACES[name]


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("pre", {"pre": 4, "final": 1}),
        ("post", {"post": 4}),
        ("sandwich", {"pre": 4, "sandwich": 4, "final": 1}),
        ("deep_norm", {"post": 4}),
    ],
)
def test_every_scheme_of_blocks_is_told(scheme, expected):
    model = ToyLanguageModel(layers=2, width=16, scheme=scheme, qk_norm=nn.RMSNorm)
    found = audit(model, {"tokens": torch.randint(64, (2, 9))})
    assert Counter(one.place for one in found.norms) == {**expected, "qk": 4}
    assert found.remarks == ()


def test_a_pre_ln_stack_without_its_final_norm_is_told():
    found = audit(ToyLanguageModel(layers=2, width=16, final_norm=False), {"tokens": torch.randint(64, (2, 9))})
    (remark,) = found.remarks
    assert remark.startswith("1 trunk has norms in its branches and none at its end")
    assert Counter(one.place for one in found.norms) == {"pre": 4}


def test_a_final_norm_behind_a_post_ln_stack_is_told():
    found = audit(ToyLanguageModel(layers=2, width=16, scheme="post", final_norm=True), {"tokens": torch.randint(64, (2, 9))})
    (remark,) = found.remarks
    assert remark.startswith("a trunk with norms on it ends in one more")
    assert Counter(one.place for one in found.norms) == {"post": 4, "final": 1}


def test_pytorchs_own_transformer_ends_its_post_ln_stacks_in_one_norm_too_many():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Transformer(16, 2, 2, 2, 32, dropout=0.0, batch_first=True)

        def forward(self, x):
            return self.body(x, x)

    found = audit(Model().eval(), {"x": torch.randn(2, 5, 16)})
    assert Counter(one.place for one in found.norms) == {"post": 10, "final": 2}
    assert len(found.remarks) == 1


def test_branches_side_by_side_begin_with_pre_norms():
    model, batch = chain(Parallel(8), Parallel(8), norm(), linear())
    assert list(places(audit(model, batch)).values()) == ["pre", "pre", "pre", "pre", "final"]


def test_a_norm_at_the_end_of_a_branch_alone_is_its_exit():
    model, batch = chain(*(Residual(nn.Sequential(linear(), norm())) for _ in range(2)), norm(), linear())
    assert list(places(audit(model, batch)).values()) == ["exit", "exit", "final"]


def test_a_final_norm_may_come_after_a_choice_or_a_mean_of_tokens():
    class Pool(nn.Module):
        def forward(self, x):
            return x.mean(1)

    model, batch = chain(*(Residual(nn.Sequential(norm(), linear())) for _ in range(2)), Pool(), norm(), linear())
    found = audit(model, batch)
    assert list(places(found).values()) == ["pre", "pre", "final"]
    assert found.remarks == ()


def test_a_trunk_that_is_updated_in_place_is_followed():
    model, batch = chain(*(Residual(nn.Sequential(norm(), linear()), torch.Tensor.add_) for _ in range(2)), norm(), linear())
    assert list(places(audit(model, batch)).values()) == ["pre", "pre", "final"]


def test_a_polynomial_of_a_value_is_no_residual_sum():
    class Cubic(nn.Module):
        def forward(self, x):
            return x + 0.044715 * x**3

    model, batch = chain(linear(), Cubic(), norm(), linear())
    assert places(audit(model, batch)) == {"2": "inner"}


def test_a_tensor_that_is_filled_part_by_part_carries_what_was_written():
    class Filled(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.out = norm(), linear()

        def forward(self, x):
            held = torch.empty_like(x)
            held[..., :4].copy_(self.norm(x)[..., :4])
            held[..., 4:] = 1.0
            return x + self.out(held)

    model, batch = chain(Filled(), norm(), linear())
    assert list(places(audit(model, batch)).values()) == ["pre", "final"]


def test_a_norm_that_is_not_called_is_told():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.spare = norm()

        def forward(self, x):
            return x

    model, batch = chain(Idle(), linear())
    found = audit(model, batch)
    assert (found.norms[0].place, found.norms[0].calls) == (None, 0)
    assert found.remarks == ("not called in this forward pass: 0.spare",)


def test_calls_shapes_and_parameters_are_counted():
    family = network("gru")
    found = audit(family.build("tiny"), family.batch("tiny"))
    by_name = {one.name: one for one in found.norms}
    assert (by_name["decoder.state_gates_norm"].calls, by_name["decoder.state_gates_norm"].shapes) == (16, ((8, 512),))
    assert (by_name["encoder_forward.input_gates_norm"].calls, by_name["encoder_forward.input_gates_norm"].width) == (1, 512)
    assert found.norm_parameters == sum(one.parameters for one in found.norms) == 3 * 2 * (512 + 256) * 2
    shared, batch = chain(norm(), linear())
    shared.append(shared[0])
    assert audit(shared, batch).norms[0].calls == 2
    assert audit(shared, batch).norm_parameters == 16


def test_without_inputs_there_are_norms_and_no_places():
    found = audit(network("gpt2").build("tiny"), None)
    assert {one.place for one in found.norms} == {None}
    assert found.remarks[0].startswith("places are not known")


def test_a_model_is_left_as_it_was():
    model, batch = chain(linear(), nn.Dropout(0.5), norm(), nn.Linear(8, 8))
    model[2].eval()
    modes, state = [module.training for module in model.modules()], torch.random.get_rng_state()
    is_fused = torch.backends.mha.get_fastpath_enabled()
    audit(model, batch)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.backends.mha.get_fastpath_enabled() == is_fused
    assert not model[2]._forward_hooks
    assert not model[2]._forward_pre_hooks
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_failing_forward_leaves_no_hooks_and_no_mode_behind():
    model, _ = chain(norm(), linear())
    with pytest.raises(RuntimeError):
        audit(model, {"x": torch.randn(2, 5)})
    assert model.training
    assert not model[0]._forward_hooks


def test_a_norm_is_one_node_of_the_flow():
    model, batch = chain(linear(), norm(), linear())
    flow = record(model, batch, {"1": model[1]})
    assert [node.kind for node in flow.nodes] == [Kind.INPUT, Kind.LINEAR, Kind.NORM, Kind.LINEAR]


def command(*arguments):
    return CliRunner().invoke(models, [str(argument) for argument in arguments])


def test_the_command_prints_a_table_and_json(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "class Block(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.norm, self.batch, self.out = nn.LayerNorm(8), nn.BatchNorm1d(8), nn.Linear(8, 8)\n"
        "    def forward(self, x):\n"
        "        return x + self.out(self.norm(x))\n"
        "def make():\n"
        "    return Block(), {'x': torch.randn(2, 8)}\n"
    )
    shown = command("audit", f"{tmp_path / 'net.py'}:make").output.splitlines()
    assert shown[1].split() == ["norm", "layer_norm", "pre", "1", "8", "1e-05", "torch", "16"]
    assert shown[2].endswith("net.py:make: 1 norms with 16 of 104 parameters (15.38 %)")
    assert shown[3].startswith("no LayerNorm and no RMSNorm: batch (BatchNorm1d: it normalises over the batch")
    assert shown[4].startswith("1 trunk has norms in its branches and none at its end")
    found = json.loads(command("audit", f"{tmp_path / 'net.py'}:make", "--json").output)
    assert (found["norms"][0]["place"], found["norms"][0]["width"], found["parameters"]) == ("pre", 8, 104)


def test_the_command_lists_networks():
    rows = json.loads(command("list", "--json").output)
    assert [row["network"] for row in rows] == list(PLACES)
    assert rows[0]["tiny"] == "2x64"


def test_the_command_refuses_an_unknown_network():
    refused = command("audit", "gpt9").exception
    assert isinstance(refused, UsageError)
    assert "network 'gpt9' is unknown" in str(refused)
