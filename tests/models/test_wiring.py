"""What is declared about model classes holds for the classes as they are installed."""

import pytest
from torch import nn

from normbench.models.blocks import Scheme
from normbench.models.convolutional import ConvPool
from normbench.models.norms import find_norms
from normbench.models.recurrent import GRUTranslator
from normbench.models.toy import ToyLanguageModel
from normbench.models.transformer import Transformer
from normbench.models.wiring import wires_of

pytestmark = pytest.mark.usefixtures("one_thread")


def gpt2(kind, **more):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=20, n_positions=8, pad_token_id=0, **more)
    return getattr(transformers, kind)(config)


def vit(kind):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "image_size": 8, "patch_size": 4}
    return getattr(transformers, kind)(transformers.ViTConfig(**sizes))


FOLDED = {
    "GPT2LMHeadModel": lambda: gpt2("GPT2LMHeadModel"),
    "GPT2ForSequenceClassification": lambda: gpt2("GPT2ForSequenceClassification"),
    "GPT2ForTokenClassification": lambda: gpt2("GPT2ForTokenClassification"),
    "ViTForImageClassification": lambda: vit("ViTForImageClassification"),
    "ToyLanguageModel": lambda: ToyLanguageModel(layers=2),
}


@pytest.mark.parametrize("kind", FOLDED)
def test_every_norm_of_a_pre_ln_model_has_writers_and_readers(kind):
    model = FOLDED[kind]()
    norms = {found.name for found in find_norms(model)}
    wires = wires_of(model, norms)
    assert wires.keys() == norms
    for wire in wires.values():
        assert wire.readers
        # Two embeddings at least, and two sub-layers in each of two layers.
        assert len(wire.writers) >= 2 + 2 * 2
        for path in (*wire.writers, *wire.readers):
            assert any(path in (name, other) for name, _ in model.named_modules() for other in dict(model.named_parameters()))


@pytest.mark.parametrize("kind", ["GPT2Model", "ViTModel"])
def test_the_last_norm_of_a_bare_body_has_no_reader(kind):
    model = (gpt2 if kind == "GPT2Model" else vit)(kind)
    wires = wires_of(model, {found.name for found in find_norms(model)})
    (last,) = [wire for wire in wires.values() if not wire.readers]
    assert last.norm in ("ln_f", "layernorm")
    assert last.why_unread


@pytest.mark.parametrize("scheme", [Scheme.POST, Scheme.DEEP_NORM, Scheme.SANDWICH])
def test_a_toy_whose_trunk_is_normed_says_why_it_stays_uncentred(scheme):
    model = ToyLanguageModel(layers=1, scheme=scheme)
    wires = wires_of(model, {found.name for found in find_norms(model)})
    assert wires
    for wire in wires.values():
        assert not wire.writers
        assert wire.why_uncentred.startswith("Sandwich" if scheme is Scheme.SANDWICH else "Post-LN")


def test_inner_norms_have_one_writer_each():
    for model in (GRUTranslator(8, 8, 10), ConvPool(4), ToyLanguageModel(layers=1, qk_norm=nn.LayerNorm).stack.blocks[0].sublayer):
        norms = {found.name for found in find_norms(model)}
        wires = wires_of(model, norms)
        assert wires.keys() == norms
        writers = [path for wire in wires.values() for path in wire.writers]
        assert len(set(writers)) == len(writers) == len(norms)


def test_a_layer_by_itself_knows_of_no_writers():
    model = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 8, norm_first=True), nn.TransformerEncoderLayer(8, 2, 8))
    wires = wires_of(model, {found.name for found in find_norms(model)})
    assert {wire.why_uncentred.partition(":")[0] for name, wire in wires.items() if name.startswith("1.")} == {"Post-LN"}
    assert all("what else writes" in wire.why_uncentred for name, wire in wires.items() if name.startswith("0."))
    assert len(wires) == 4
    assert len(wires_of(Transformer(8, 1, 2, 8, 10), {found.name for found in find_norms(Transformer(8, 1, 2, 8, 10))})) == 5


class Attention(nn.Module):
    """Somebody's own class of a name that is declared of another: between its norms and the product may be anything."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)
        self.query_norm, self.key_norm = nn.LayerNorm(8), nn.LayerNorm(8)


def test_a_class_is_not_known_by_its_name_alone():
    assert wires_of(Attention(), {"query_norm", "key_norm"}) == {}


def test_a_class_derived_from_a_known_one_is_known_unless_its_forward_is_its_own():
    class Same(ToyLanguageModel):
        pass

    class Other(ToyLanguageModel):
        def forward(self, tokens):
            return super().forward(tokens)

    assert wires_of(Same(layers=1), {"stack.final_norm"})["stack.final_norm"].readers == ("head",)
    assert wires_of(Other(layers=1), {"stack.final_norm"}) == {}
    replaced = ToyLanguageModel(layers=1)
    replaced.forward = lambda tokens: tokens
    assert wires_of(replaced, {"stack.final_norm"}) == {}


def test_paths_are_the_first_ones_of_parts_that_stand_in_several_places():
    model = ToyLanguageModel(layers=2)
    model.stack.blocks[2] = model.stack.blocks[0]
    first, second = (wires_of(model, {"stack.blocks.0.norm", "stack.blocks.2.norm"})[f"stack.blocks.{block}.norm"] for block in (0, 2))
    assert first.readers == second.readers == tuple(f"stack.blocks.0.sublayer.{part}" for part in ("query", "key", "value"))
    assert first.writers == second.writers


def test_what_stands_in_the_place_of_a_norm_keeps_the_trunk_uncentred():
    model = ToyLanguageModel(layers=2)
    model.stack.blocks[1].norm = nn.Identity()
    wires = wires_of(model, {found.name for found in find_norms(model)})
    assert len(wires) == 4
    for wire in wires.values():
        assert not wire.writers
        assert wire.why_uncentred == "stack.blocks.1.norm, which reads the same, is no LayerNorm but Identity, and would miss the mean"
        assert wire.readers


def test_a_model_that_nothing_is_known_of_has_no_wires():
    assert wires_of(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), {"1"}) == {}


def test_an_outer_part_has_its_say_before_an_inner_one():
    # In a GPT-2 with a head the last norm is read by it; in its body alone by nobody.
    model = gpt2("GPT2LMHeadModel")
    assert wires_of(model, {"transformer.ln_f"})["transformer.ln_f"].readers == ("lm_head",)
