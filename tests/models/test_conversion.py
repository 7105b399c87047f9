"""LayerNorm to RMSNorm: the same function where centring and bias find a place, and said so where not."""

import copy
import re

import pytest
import torch
from torch import nn

import normbench
from normbench import UsageError
from normbench.models.blocks import Scheme
from normbench.models.conversion import convert_model
from normbench.models.convolutional import ConvPool
from normbench.models.deviation import first_tensor
from normbench.models.networks import network
from normbench.models.norms import find_norms
from normbench.models.recurrent import GRUTranslator
from normbench.models.toy import ToyLanguageModel
from normbench.models.transformer import Transformer

pytestmark = pytest.mark.usefixtures("one_thread")

TOKENS = torch.randint(0, 40, (2, 12), generator=torch.Generator().manual_seed(0))


def spread(model):
    """Return a model with random weights and biases in norms and linear maps, as training leaves them, in float64."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model.double()


def gpt2(**more):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=4, n_embd=64, n_head=4, vocab_size=40, n_positions=16, **more)
    return spread(transformers.GPT2LMHeadModel(config)), {"input_ids": TOKENS}


def vit():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "image_size": 16,
        "patch_size": 4,
    }
    return spread(transformers.ViTForImageClassification(transformers.ViTConfig(**sizes))), {
        "pixel_values": torch.randn(2, 3, 16, 16, dtype=torch.float64)
    }


def toy(**options):
    torch.manual_seed(0)
    return spread(ToyLanguageModel(40, 16, 32, 3, 4, **options)), {"tokens": TOKENS}


def gru():
    torch.manual_seed(0)
    return spread(GRUTranslator(16, 12, 40)), {"source": TOKENS, "target": TOKENS[:, :5]}


def cnn():
    torch.manual_seed(0)
    return spread(ConvPool(8)), {"images": torch.randn(2, 3, 16, 16, dtype=torch.float64)}


def transformer():
    torch.manual_seed(0)
    return spread(Transformer(32, 2, 4, 48, 40)), {"source": TOKENS, "target": TOKENS}


def off(model, other, batch):
    """Return the relative difference of the outputs of two models in inference."""
    with torch.no_grad():
        y, z = (first_tensor(copy.deepcopy(one).eval()(**batch)) for one in (model, other))
    return ((z - y).norm() / y.norm()).item()


def vit_with_query_key_norm():
    pytest.importorskip("transformers")
    found = network("vit")
    return found.build("tiny", dtype=torch.float64), found.batch("tiny", dtype=torch.float64)


@pytest.mark.parametrize("make", [gpt2, vit, vit_with_query_key_norm, toy])
def test_a_pre_ln_model_is_converted_without_a_difference_where_copied_weights_are_far_off(make):
    model, batch = make()
    conversion = convert_model(model, {"random": batch})
    assert conversion.is_exact
    assert off(model, conversion.model, batch) < 1e-14
    assert off(model, convert_model(model, fold=False).model, batch) > 1e-2
    norms = [module for module in conversion.model.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    assert all(isinstance(module, normbench.nn.RMSNorm) for module in norms)
    assert len(norms) == len(conversion.norms)


def test_the_head_is_untied_from_an_embedding_that_is_centred_and_gets_a_bias():
    model, batch = gpt2()
    conversion = convert_model(model)
    assert (conversion.untied, conversion.added) == (("lm_head.weight",), ("lm_head.bias",))
    assert conversion.model.config.tie_word_embeddings is False
    assert model.config.tie_word_embeddings is True
    assert conversion.model.transformer.wte.weight.mean(-1).abs().max() < 1e-15
    assert torch.equal(conversion.model.lm_head.weight, model.lm_head.weight)
    # Had the head kept the embedding's centred weight, all logits would be off.
    tied = copy.deepcopy(conversion.model)
    tied.lm_head.weight = tied.transformer.wte.weight
    assert off(model, tied, batch) > 1e-3


def test_nothing_is_said_to_be_untied_where_nothing_was_tied():
    model, batch = gpt2(tie_word_embeddings=False)
    conversion = convert_model(model, {"random": batch})
    assert (conversion.is_exact, conversion.untied, conversion.added) == (True, (), ("lm_head.bias",))


def test_parameters_are_the_models_own_but_for_the_norms_biases():
    model, _ = gpt2()
    conversion = convert_model(model)
    before, after = set(model.state_dict()), set(conversion.model.state_dict())
    assert before - after == {f"{found.name}.bias" for found in find_norms(model)}
    assert after - before == set(conversion.added)
    for found in find_norms(model):
        converted = conversion.model.get_submodule(found.name)
        assert torch.equal(converted.weight, found.module.weight)
        assert converted.eps == found.eps


def test_the_model_itself_stays_as_it_was():
    model, batch = gpt2()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    convert_model(model, {"random": batch})
    assert list(model.state_dict()) == list(before)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.training
    assert all(not module._forward_pre_hooks for module in model.modules())


def test_a_converted_model_keeps_its_mode_and_trains():
    model, batch = toy()
    converted = convert_model(model, {"random": batch}).model
    assert all(module.training for module in converted.modules())
    assert all(not module._forward_pre_hooks for module in converted.modules())
    converted(**batch).square().sum().backward()
    assert all(parameter.grad is not None for parameter in converted.parameters())


def test_the_bias_of_a_normed_key_is_unseen_and_that_of_a_query_is_not():
    model, batch = toy(qk_norm=nn.LayerNorm)
    conversion = convert_model(model, {"random": batch})
    inexact = [norm.name for norm in conversion.norms if not norm.is_exact]
    assert inexact == [f"stack.blocks.{block}.sublayer.query_norm" for block in (0, 2, 4)]
    assert {norm.bias for norm in conversion.norms if norm.name.endswith("key_norm")} == {"unseen"}
    assert 1e-3 < off(model, conversion.model, batch) < off(model, convert_model(model, fold=False).model, batch)
    for block in (0, 2, 4):
        nn.init.zeros_(model.stack.blocks[block].sublayer.query_norm.bias)
    conversion = convert_model(model, {"random": batch})
    assert conversion.is_exact
    assert off(model, conversion.model, batch) < 1e-14


@pytest.mark.parametrize("make", [gru, cnn])
def test_a_norm_between_a_linear_map_and_a_nonlinearity_is_exact_but_for_its_bias(make):
    model, batch = make()
    conversion = convert_model(model, {"random": batch})
    assert {norm.bias for norm in conversion.norms} == {"dropped"}
    assert all(norm.centring.startswith("folded into") and "nonlinearity" in norm.reasons[0] for norm in conversion.norms)
    for found in find_norms(model):
        nn.init.zeros_(found.module.bias)
    conversion = convert_model(model, {"random": batch})
    assert conversion.is_exact
    assert off(model, conversion.model, batch) < 1e-12
    assert off(model, convert_model(model, fold=False).model, batch) > 1e-2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (transformer, "Post-LN"),
        (lambda: toy(scheme=Scheme.POST), "Post-LN"),
        (lambda: toy(scheme=Scheme.DEEP_NORM), "Post-LN"),
        (lambda: toy(scheme=Scheme.SANDWICH), "Sandwich"),
    ],
    ids=["transformer", "post", "deep_norm", "sandwich"],
)
def test_a_trunk_that_is_normed_is_converted_approximately_and_says_so(make, why):
    model, batch = make()
    conversion = convert_model(model, {"random": batch})
    assert not any(norm.is_exact for norm in conversion.norms)
    assert all(norm.reasons[0].startswith(why) for norm in conversion.norms)
    assert off(model, conversion.model, batch) == off(model, convert_model(model, fold=False).model, batch) > 1e-2


def test_a_model_that_nothing_is_known_of_keeps_its_weights_and_says_so():
    model = spread(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.RMSNorm(8)))
    conversion = convert_model(model)
    (norm,) = conversion.norms
    assert (norm.name, norm.centring, norm.bias) == ("1", "dropped", "dropped")
    assert norm.reasons == ("nothing is known of what writes to its input",)
    assert conversion.kept == ("3",)
    assert torch.equal(conversion.model[1].weight, model[1].weight)
    assert torch.equal(conversion.model[0].weight, model[0].weight)


class Wrapped(nn.Module):
    """What a user puts around a linear map, such as an adapter."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 1.5


def test_a_reader_that_is_wrapped_does_not_get_the_bias_and_the_rest_stays_exact():
    model, batch = toy()
    model.stack.blocks[2].sublayer.key = Wrapped(model.stack.blocks[2].sublayer.key)
    conversion = convert_model(model, {"random": batch})
    (norm,) = [norm for norm in conversion.norms if not norm.is_exact]
    assert (norm.name, norm.bias) == ("stack.blocks.2.norm", "dropped")
    assert norm.centring.startswith("folded")
    assert "stack.blocks.2.sublayer.key, which reads its output, is a Wrapped" in norm.reasons[0]


def test_a_writer_that_is_wrapped_leaves_its_whole_trunk_uncentred():
    model, batch = toy()
    model.stack.blocks[2].sublayer.output = Wrapped(model.stack.blocks[2].sublayer.output)
    conversion = convert_model(model, {"random": batch})
    assert len(conversion.norms) == 7
    for norm in conversion.norms:
        assert norm.centring == "dropped"
        assert norm.bias.startswith("folded into")
        assert "stack.blocks.2.sublayer.output, which writes to its input, is a Wrapped" in norm.reasons[0]
    assert torch.equal(conversion.model.embedding.weight, model.embedding.weight)


class Louder(ToyLanguageModel):
    """A toy changed by its user: something that is not declared writes to the trunk."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stack.blocks[1].register_forward_hook(lambda module, inputs, output: output + 1e-3)


def test_a_writer_that_is_not_known_of_is_noticed_after_it_and_not_before():
    torch.manual_seed(0)
    model, batch = spread(Louder(40, 16, 32, 3, 4)), {"tokens": TOKENS}
    conversion = convert_model(model, {"random": batch})
    inexact = {norm.name: norm.reasons[0] for norm in conversion.norms if not norm.is_exact}
    assert list(inexact) == [f"stack.blocks.{block}.norm" for block in (2, 3, 4, 5)] + ["stack.final_norm"]
    assert all("something else writes to it" in why for why in inexact.values())


def share_a_norm(model):
    model.transformer.h[1].ln_1 = model.transformer.h[0].ln_1


def share_an_attention(model):
    model.transformer.h[1].attn = model.transformer.h[0].attn


def drop_a_norm(model):
    model.transformer.h[1].ln_1 = nn.Identity()


def put_an_rms_norm(model):
    model.transformer.h[1].ln_1 = nn.RMSNorm(64, eps=1e-5).double()


def hook_a_norm(model):
    model.transformer.h[1].ln_1.register_forward_hook(lambda module, inputs, output: output.relu())


def shorten_embeddings(model):
    model.transformer.wte.max_norm = 0.1


def return_the_trunk(model):
    model.config.output_hidden_states = True


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (share_a_norm, "it stands at transformer.h.1.ln_1 too, where others read its output"),
        (share_an_attention, "transformer.h.0.attn.c_attn, which reads its output, reads that of another norm too"),
        (drop_a_norm, "transformer.h.1.ln_1, which reads the same, is no LayerNorm but Identity, and would miss the mean"),
        (put_an_rms_norm, "transformer.h.1.ln_1, which reads the same, is no LayerNorm but RMSNorm, and would miss the mean"),
        (hook_a_norm, r"the outputs differ by .* of their size \(logits\): something else reads or writes here"),
        (shorten_embeddings, r"the outputs differ by .* of their size \(logits\)"),
        (return_the_trunk, r"the outputs differ by .* of their size \(hidden_states"),
    ],
)
def test_a_model_changed_by_its_user_is_not_called_exact(change, why):
    model, batch = gpt2()
    change(model)
    conversion = convert_model(model, {"random": batch})
    assert not conversion.is_exact
    assert any(re.search(why, reason) for norm in conversion.norms for reason in norm.reasons)
    if change is not return_the_trunk:
        assert off(model, conversion.model, batch) > 1e-6


def test_a_shared_norm_leaves_the_others_exact():
    model, batch = gpt2()
    share_a_norm(model)
    conversion = convert_model(model, {"random": batch})
    assert [norm.name for norm in conversion.norms if not norm.is_exact] == ["transformer.h.0.ln_1"]
    nn.init.zeros_(model.transformer.h[0].ln_1.bias)
    conversion = convert_model(model, {"random": batch})
    assert conversion.is_exact
    assert off(model, conversion.model, batch) < 1e-14


@pytest.mark.parametrize("shares_weight", [False, True])
def test_readers_that_share_a_bias_get_one_each(shares_weight):
    model, batch = gpt2()
    first, second = (model.transformer.h[block].attn.c_attn for block in (0, 1))
    second.bias = first.bias
    if shares_weight:
        second.weight = first.weight
    conversion = convert_model(model, {"random": batch})
    assert conversion.is_exact
    assert "transformer.h.1.attn.c_attn.bias" in conversion.untied
    assert off(model, conversion.model, batch) < 1e-14


def test_a_block_that_stands_twice_is_converted_exactly_and_is_not_tied_to_itself():
    model, batch = gpt2()
    model.transformer.h[1] = model.transformer.h[0]
    conversion = convert_model(model, {"random": batch})
    assert conversion.is_exact
    assert conversion.untied == ("lm_head.weight",)
    assert off(model, conversion.model, batch) < 1e-14


def test_norms_that_share_weights_are_converted_exactly():
    model, batch = gpt2()
    for name in ("weight", "bias"):
        setattr(model.transformer.h[1].ln_1, name, getattr(model.transformer.h[0].ln_1, name))
    conversion = convert_model(model, {"random": batch})
    assert conversion.is_exact
    assert off(model, conversion.model, batch) < 1e-14


def test_a_second_head_on_the_last_norm_is_noticed():
    class Valued(ToyLanguageModel):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.value = nn.Linear(32, 1)
            self.stack.final_norm.register_forward_hook(self._keep)

        def _keep(self, module, inputs, output):
            self.kept = output

        def __call__(self, tokens):
            return super().__call__(tokens), self.value(self.kept)

    torch.manual_seed(0)
    model, batch = spread(Valued(40, 16, 32, 3, 4)), {"tokens": TOKENS}
    conversion = convert_model(model, {"random": batch})
    assert not any(norm.is_exact for norm in conversion.norms)
    assert all("(1): something else reads or writes here" in norm.reasons[-1] for norm in conversion.norms)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_keep_their_dtype_and_are_rounded_once(dtype):
    model, _ = gpt2()
    model = model.to(dtype)
    converted = convert_model(model).model
    assert {parameter.dtype for parameter in converted.parameters()} == {dtype}
    exact = convert_model(copy.deepcopy(model).double()).model.state_dict()
    assert all(torch.equal(tensor, exact[name].to(dtype)) for name, tensor in converted.state_dict().items())


def test_norms_are_computed_by_the_provider_asked_for():
    model, _ = toy()
    for provider in (None, "eager"):
        norms = [module for module in convert_model(model, provider=provider).model.modules() if isinstance(module, normbench.nn.RMSNorm)]
        assert {norm.provider for norm in norms} == {provider}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4)), "Sequential has no LayerNorm to convert: its 1 norms are RMSNorms already"),
        (nn.Linear(4, 4), "Linear has no LayerNorm to convert: no norm was found in it"),
        (nn.LayerNorm(4), "whole model"),
    ],
    ids=["rms_norm", "no norm", "a norm"],
)
def test_a_model_without_a_layer_norm_to_replace_is_refused(model, message):
    with pytest.raises(UsageError, match=message):
        convert_model(model)
