"""What forward passes show: every tensor that a model returns, and the means of what its norms are given."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from normbench.models.evidence import difference, look

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    extra: dict


class Model(nn.Module):
    """Return tensors in every kind of container, one of them drawn at random."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4).double()
        self.shift = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x):
        y = self.norm(input=x) + self.shift
        return Answer(y, {"states": (x, [torch.rand(3)]), "cache": object(), "masked": torch.full((2,), -math.inf)})


X = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_all_tensors_are_seen_by_batch_and_place():
    outputs = look(Model(), {"one": {"x": X}, "two": {"x": X}}).outputs
    places = ["logits", "extra.states.0", "extra.states.1.0", "extra.masked"]
    assert list(outputs) == [(batch, place) for batch in ("one", "two") for place in places]


def test_looking_twice_shows_the_same_and_leaves_generators_mode_and_hooks():
    model, state = Model(), torch.random.get_rng_state()
    first, second = (look(model, {"one": {"x": X}}, {"norm": 1}) for _ in range(2))
    assert difference(first, second)[0] == 0.0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    assert not model.norm._forward_pre_hooks


def test_the_largest_difference_and_its_place_are_told():
    model = Model()
    wanted = look(model, {"one": {"x": X}})
    with torch.no_grad():
        model.shift += 1e-3
    off, place = difference(look(model, {"one": {"x": X}}), wanted)
    assert place == "logits"
    assert off == pytest.approx(1e-3 / wanted.outputs["one", "logits"].square().mean().sqrt().item(), rel=1e-6)


def test_what_is_not_a_number_in_one_alone_or_not_there_is_infinitely_far():
    model = Model()
    wanted = look(model, {"one": {"x": X}})
    nn.init.constant_(model.shift, math.nan)
    assert difference(look(model, {"one": {"x": X}}), wanted) == (math.inf, "logits")
    assert difference(look(model, {}), wanted)[0] == math.inf
    assert difference(wanted, look(model, {})) == (math.inf, "there is no tensor in them")


@pytest.mark.parametrize("mean", [0.0, 0.5])
def test_an_offset_is_the_mean_of_an_input_beside_its_size_also_where_it_is_given_by_name(mean):
    centred = X - X.mean(-1, keepdim=True)
    x = centred / centred.square().mean().sqrt() + mean
    offset = look(Model(), {"one": {"x": x}}, {"norm": 1}).offsets["norm"]
    assert offset == pytest.approx(mean / math.hypot(1.0, mean), abs=1e-15)


def test_a_norm_over_two_dimensions_has_one_mean_over_both():
    model = nn.Sequential(nn.LayerNorm((2, 3)).double())
    x = torch.tensor([[[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]], dtype=torch.float64)
    model.forward = lambda x: model[0](x)
    assert look(model, {"one": {"x": x}}, {"0": 2}).offsets["0"] == 0.0
