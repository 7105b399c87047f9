"""What a module is for, by what it computes where that is a norm and by its names where not."""

import pytest

from normbench.profile.kinds import ModuleKind, kinds_of


# Path and class of one module of a family that the model tier has, and of what holds it.
@pytest.mark.parametrize(
    ("path", "classes", "kind"),
    [
        ("transformer.h.0.attn.c_proj", {"transformer.h.0.attn": "GPT2Attention"}, "attention"),
        ("transformer.h.0.mlp.c_proj", {"transformer.h.0.mlp": "GPT2MLP"}, "feed-forward"),
        ("transformer.wte", {"transformer.wte": "Embedding"}, "embedding"),
        ("lm_head", {"lm_head": "Linear"}, "head"),
        ("transformer.drop", {"transformer.drop": "Dropout"}, "other"),
        ("bert.encoder.layer.0.attention.output.dense", {"bert.encoder.layer.0.attention.output": "BertSelfOutput"}, "attention"),
        ("bert.encoder.layer.0.output.dense", {"bert.encoder.layer.0.output": "BertOutput"}, "feed-forward"),
        ("bert.encoder.layer.0.intermediate.dense", {}, "feed-forward"),
        ("bert.embeddings.word_embeddings", {"bert.embeddings": "BertEmbeddings"}, "embedding"),
        ("decoder.block.0.layer.1.EncDecAttention.q", {"decoder.block.0.layer.1": "T5LayerCrossAttention"}, "attention"),
        ("decoder.block.0.layer.0.SelfAttention.relative_attention_bias", {}, "attention"),
        ("decoder.block.0.layer.2.DenseReluDense.wi", {"decoder.block.0.layer.2": "T5LayerFF"}, "feed-forward"),
        ("model.layers.0.mlp.experts.3.up_proj", {}, "feed-forward"),
        ("model.rotary_emb", {"model.rotary_emb": "LlamaRotaryEmbedding"}, "embedding"),
        ("vit.classifier", {}, "head"),
        ("encoder.layers.0.linear1", {}, "feed-forward"),
        ("encoder.layers.0.self_attn", {"encoder.layers.0.self_attn": "MultiheadAttention"}, "attention"),
        ("encoder.layers.0", {"encoder.layers.0": "TransformerEncoderLayer"}, "other"),
    ],
)
def test_the_kind_is_that_of_the_outermost_module_whose_name_tells_one(path, classes, kind):
    parts = path.split(".")
    holders = {".".join(parts[:length]): "Holder" for length in range(1, len(parts) + 1)}
    assert kinds_of({"": "Model"} | holders | classes, norms=[])[path] == kind


def test_a_norm_is_one_wherever_it_is_and_whatever_it_is_called():
    classes = {"": "Model", "attn": "Attention", "attn.q": "Scale", "embed": "Embeddings", "embed.LayerNorm": "LayerNorm"}
    kinds = kinds_of(classes, norms=["attn.q", "embed.LayerNorm"])
    assert (kinds["attn.q"], kinds["embed.LayerNorm"]) == (ModuleKind.NORM, ModuleKind.NORM)
    assert kinds["attn"] is ModuleKind.ATTENTION


def test_the_class_of_the_whole_network_tells_nothing():
    assert kinds_of({"": "GPT2LMHead", "body": "Linear"}, norms=[]) == {"": ModuleKind.OTHER, "body": ModuleKind.OTHER}
