"""The algebra of the conversion: LayerNorm is RMSNorm between a centred writer and a reader with another bias."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from normbench.models.folding import can_read, can_write, centre, fold_bias, untie

pytestmark = pytest.mark.usefixtures("one_thread")


@given(width=st.integers(1, 9), eps=st.sampled_from([1e-12, 1e-5, 0.1]), has_bias=st.booleans(), seed=st.integers(0, 2**31))
def test_a_layer_norm_between_two_linear_maps_is_an_rms_norm_at_the_same_eps(width, eps, has_bias, seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    writer, reader = nn.Linear(5, width).double(), nn.Linear(width, 3, bias=has_bias).double()
    weight, bias, x = draw(width), draw(width), draw(4, 5)
    wanted = reader(F.layer_norm(writer(x), (width,), weight, bias, eps))
    centre(writer, width)
    assert fold_bias(reader, bias) is not has_bias
    torch.testing.assert_close(reader(F.rms_norm(writer(x), (width,), weight, eps)), wanted, rtol=1e-7, atol=1e-7)


def transposed():
    transformers = pytest.importorskip("transformers")
    return transformers.pytorch_utils.Conv1D(6, 5).double()


WRITERS = {
    "linear": (lambda: nn.Linear(5, 6).double(), lambda: torch.randn(2, 5, dtype=torch.float64), -1),
    "transposed": (transposed, lambda: torch.randn(2, 5, dtype=torch.float64), -1),
    "embedding": (lambda: nn.Embedding(4, 6).double(), lambda: torch.tensor([0, 3]), -1),
    "convolution": (lambda: nn.Conv2d(3, 6, 2).double(), lambda: torch.randn(2, 3, 4, 4, dtype=torch.float64), 1),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("width", [6, 3, 1])
def test_what_is_written_has_no_mean_over_each_run(kind, width):
    make, inputs, dimension = WRITERS[kind]
    writer, x = make(), inputs()
    for parameter in writer.parameters():
        nn.init.normal_(parameter, mean=1.0)
    before = writer(x).movedim(dimension, -1).unflatten(-1, (-1, width))
    centre(writer, width)
    after = writer(x).movedim(dimension, -1).unflatten(-1, (-1, width))
    torch.testing.assert_close(after, before - before.mean(-1, keepdim=True))
    assert can_write(writer)


def test_a_parameter_writes_along_its_last_dimension():
    token = nn.Parameter(torch.randn(1, 1, 6))
    wanted = token - token.mean(-1, keepdim=True)
    centre(token, 6)
    torch.testing.assert_close(token.detach(), wanted.detach())


def test_only_linear_maps_over_features_read():
    assert can_read(nn.Linear(2, 2))
    assert can_read(transposed())
    assert not any(can_read(module) for module in (nn.Conv2d(2, 2, 3, padding=1), nn.Embedding(2, 2), nn.GELU()))
    assert not can_write(nn.LayerNorm(2))


def test_a_transposed_reader_takes_a_bias_too():
    reader, bias = transposed(), torch.randn(5, dtype=torch.float64)
    x = torch.randn(2, 5, dtype=torch.float64)
    wanted = reader(x + bias)
    assert fold_bias(reader, bias) is False
    torch.testing.assert_close(reader(x), wanted)


def test_a_head_tied_to_the_embedding_gets_a_copy_and_the_writer_keeps_its_own():
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "head": nn.Linear(4, 5, bias=False), "other": nn.Linear(4, 5)})
    model["head"].weight = model["embedding"].weight
    model["head"].weight.requires_grad_(False)
    assert untie(model, {"embedding"}) == ("head.weight",)
    assert model["head"].weight is not model["embedding"].weight
    assert torch.equal(model["head"].weight, model["embedding"].weight)
    assert not model["head"].weight.requires_grad
    assert untie(model, {"embedding"}) == ()


def test_the_first_reader_keeps_a_bias_that_several_share():
    shared = nn.Linear(3, 2)
    model = nn.ModuleDict({"first": nn.Linear(4, 2), "second": nn.Linear(4, 2), "other": shared})
    model["first"].bias = model["second"].bias = shared.bias
    assert untie(model, set(), {"first", "second"}) == ("second.bias", "other.bias")
    assert len({id(module.bias) for module in model.values()}) == 3
    wanted = shared.bias.clone()
    fold_bias(model["first"], torch.ones(4))
    assert torch.equal(model["second"].bias, wanted)
    assert torch.equal(model["other"].bias, wanted)


def test_a_module_that_stands_in_two_places_is_not_tied_to_itself():
    shared = nn.Linear(4, 4)
    assert untie(nn.ModuleDict({"one": shared, "two": shared}), {"one"}, {"one"}) == ()


def test_a_configuration_is_told_of_a_tied_embedding_alone():
    class Configuration:
        tie_word_embeddings = True

    model = nn.ModuleDict({"embedding": nn.Embedding(5, 4), "head": nn.Linear(4, 5), "other": nn.Linear(4, 5)})
    model.config = Configuration()
    model["other"].bias = model["head"].bias
    assert untie(model, {"embedding"}, {"head", "other"}) == ("other.bias",)
    assert model.config.tie_word_embeddings
    model["head"].weight = model["embedding"].weight
    assert untie(model, {"embedding"}) == ("head.weight",)
    assert not model.config.tie_word_embeddings


def test_writers_tied_to_each_other_stay_tied():
    model = nn.ModuleDict({"source": nn.Embedding(5, 4), "target": nn.Embedding(5, 4)})
    model["target"].weight = model["source"].weight
    assert untie(model, {"source", "target"}) == ()
    assert model["target"].weight is model["source"].weight
