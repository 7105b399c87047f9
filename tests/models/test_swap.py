"""Swapping: the same function by another provider, or the other norm; in place, and nothing else changes."""

import copy
import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from normbench import UsageError
from normbench.models.networks import network
from normbench.models.norms import find_norms
from normbench.models.swap import swap_norms
from normbench.nn import LayerNorm, RMSNorm

from .families import PLACES
from .lookalikes import Annotated, Gain, GuardedNorm, Quiet, clamped_length

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # What PyTorch says when it first compiles, and when it compiles for what is no leaf.
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

RMS_FAMILIES = ["t5", "llama", "qwen3", "deepseek_v3"]


def step(family, model, batch):
    """Return outputs, and the gradients of all parameters by name."""
    model.zero_grad()
    family.loss(model, batch).backward()
    return family.outputs(model, batch), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    ("name", "provider"),
    [*((name, provider) for name in PLACES for provider in ("eager", "aten")), *((name, "transformers") for name in RMS_FAMILIES)],
)
def test_another_provider_gives_the_same_outputs_and_gradients(name, provider):
    family = network(name)
    model, batch = family.build("tiny"), family.batch("tiny")
    wanted, wanted_gradients = step(family, copy.deepcopy(model), batch)
    keys, parameters = list(model.state_dict()), [id(parameter) for parameter in model.parameters()]
    swap = swap_norms(model, provider=provider)
    assert len(swap.replaced) == sum(PLACES[name].values())
    assert swap.left == ()
    assert list(model.state_dict()) == keys
    assert [id(parameter) for parameter in model.parameters()] == parameters
    norms = [module for module in model.modules() if isinstance(module, LayerNorm | RMSNorm)]
    assert [module.provider for module in norms] == [provider] * len(swap.replaced)
    found, gradients = step(family, model, batch)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    for key, gradient in gradients.items():
        torch.testing.assert_close(gradient, wanted_gradients[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize("provider", ["eager", "aten"])
def test_in_16_bits_outputs_differ_by_roundings_alone(name, provider):
    family = network(name)
    model = family.build("tiny", dtype=torch.bfloat16)
    batch = family.batch("tiny", dtype=torch.bfloat16)
    wanted = family.outputs(model, batch).float()
    swap_norms(model, provider=provider)
    found = family.outputs(model, batch)
    assert found.dtype == torch.bfloat16
    # Logits here are of size 1 and are rounded by up to 2**-9; a norm that rounded elsewhere in a layer would shift them all.
    torch.testing.assert_close(found.float(), wanted, rtol=0.03, atol=0.05)


def test_a_family_becomes_one_of_the_other_norm():
    family = network("gpt2")
    model, batch = family.build("tiny"), family.batch("tiny")
    swap = swap_norms(model, norm="rms_norm", provider="aten")
    assert {(one.before, one.after, one.note) for one in swap.replaced} == {
        ("layer_norm", "rms_norm", "rows are not centred any more, and the bias is gone")
    }
    assert [(one.norm, one.eps, one.has_bias) for one in find_norms(model)] == [("rms_norm", 1e-5, False)] * 5
    hidden = torch.randn(3, 256) + 2
    weight = model.transformer.ln_f.weight
    torch.testing.assert_close(model.transformer.ln_f(hidden), nn.functional.rms_norm(hidden, (256,), weight, 1e-5))
    family.loss(model, batch).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_rms_norm_becomes_layer_norm_with_a_bias_of_zero():
    model = nn.Sequential(LlamaRMSNorm(48, eps=1e-4), GemmaRMSNorm(48), nn.RMSNorm(48, elementwise_affine=False)).bfloat16()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    llama, gemma = (module.weight.detach().clone() for module in model[:2])
    swap = swap_norms(model, norm="layer_norm")
    assert [one.note for one in swap.replaced] == ["rows are centred, and there is a bias of 0"] * 2 + ["rows are centred"]
    assert [(one.norm, one.eps, one.has_weight, one.has_bias) for one in find_norms(model)] == [
        ("layer_norm", 1e-4, True, True),
        ("layer_norm", 1e-6, True, True),
        # eps None has no meaning in a LayerNorm.
        ("layer_norm", 1e-5, False, False),
    ]
    assert torch.equal(model[0].weight, llama)
    # Its factor is 1 + weight, so the new weight is.
    assert torch.equal(model[1].weight, gemma + 1)
    assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())


def test_without_a_provider_the_default_one_computes():
    model = nn.Sequential(nn.LayerNorm(8))
    swap_norms(model)
    assert model[0].provider is None
    assert model(torch.randn(2, 8)).shape == (2, 8)


def test_shared_norms_and_tied_weights_stay_so():
    shared = nn.LayerNorm(8)
    model = nn.ModuleList([shared, nn.Sequential(shared), nn.LayerNorm(8)])
    model[2].weight = shared.weight
    swap_norms(model, provider="eager")
    assert model[0] is model[1][0]
    assert model[0] is not shared
    assert model[2].weight is model[0].weight
    assert sum(parameter.numel() for parameter in model.parameters()) == 8 + 8 + 8


def test_mode_hooks_frozen_parameters_and_attributes_are_kept():
    model = nn.Sequential(LlamaRMSNorm(8)).eval()
    model[0].weight.requires_grad_(False)
    model[0].layer_index = 3
    calls = []
    handle = model[0].register_forward_hook(lambda module, args, output: calls.append(module))
    swap_norms(model, provider="aten")
    assert not model[0].training
    assert not model[0].weight.requires_grad
    assert (model[0].variance_epsilon, model[0].layer_index) == (1e-6, 3)
    model(torch.randn(2, 8))
    assert calls == [model[0]]
    handle.remove()
    model(torch.randn(2, 8))
    assert len(calls) == 1


def test_hooks_on_gradients_are_called_as_before():
    model, calls = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), []
    model[1].register_full_backward_hook(lambda *_: calls.append("after"))
    model[1].register_full_backward_pre_hook(lambda *_: calls.append("before"))
    swap_norms(model, provider="aten")
    model(torch.randn(2, 8)).sum().backward()
    assert calls == ["before", "after"]


class Calling(nn.Module):
    """Call a norm by the name of its input."""

    def __init__(self, norm, name):
        super().__init__()
        self.norm, self.name = norm, name

    def forward(self, x):
        return self.norm(**{self.name: x})


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize(("module", "name"), [(nn.LayerNorm, "input"), (nn.RMSNorm, "x"), (LlamaRMSNorm, "hidden_states"), (Quiet, "x")])
def test_a_norm_is_still_called_by_the_name_of_its_input(module, name, norm):
    model, x = Calling(module(48), name), torch.randn(2, 48)
    swap_norms(model, norm=norm, provider="aten")
    first = model(x)
    assert torch.equal(model.norm(x), first)
    # Also when it is swapped once more, or written and read.
    swap_norms(model, provider="eager")
    torch.testing.assert_close(model(x), first)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))
    with pytest.raises(TypeError, match="unexpected keyword argument 'gate'"):
        model.norm(x, gate=x)


def test_rows_of_padding_stay_zero():
    model = nn.Sequential(nn.Embedding(10, 8, padding_idx=0), GuardedNorm(8, clamped_length(1e-12)), nn.LayerNorm(8))
    tokens = torch.tensor([[0, 3]])
    wanted = model(tokens)
    swap = swap_norms(model, provider="aten")
    assert [one.name for one in swap.left] == ["1"]
    torch.testing.assert_close(model(tokens), wanted)


def test_a_gated_norm_of_mamba_is_left_and_the_model_computes_as_before():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_heads": 4, "head_dim": 8, "state_size": 4, "n_groups": 1, "num_hidden_layers": 1, "vocab_size": 20}
    tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    model, x = transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**sizes, **tokens)).eval(), torch.randint(20, (2, 6))
    wanted = model(x).logits
    swap = swap_norms(model, provider="aten")
    assert [one.reason for one in swap.left] == ["MambaRMSNormGated: it takes a second input 'gate'"]
    assert len(swap.replaced) == 2
    torch.testing.assert_close(model(x).logits, wanted)


def test_parameters_keep_names_of_their_own():
    model, x = nn.Sequential(Gain(48), Quiet(48)), torch.randn(3, 48)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    wanted, state = model(x), model.state_dict()
    swap_norms(model, provider="aten")
    torch.testing.assert_close(model(x), wanted)
    assert list(model.state_dict()) == ["0.beta", "0.gamma", "1.scale"]
    model.load_state_dict(state)
    assert [one.weight_name for one in find_norms(model)] == ["gamma", "scale"]
    assert "provider=aten" in repr(model[0])
    swap_norms(model, norm="rms_norm", provider="eager")
    assert list(model.state_dict()) == ["0.gamma", "1.scale"]


def test_a_swapped_model_can_be_swapped_again_copied_and_pickled():
    model, x = nn.Sequential(nn.LayerNorm(8), Gain(8)), torch.randn(2, 8)
    wanted = model(x)
    swap_norms(model, provider="aten")
    swap_norms(model, provider="eager")
    assert {module.provider for module in model} == {"eager"}
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x), wanted)
        assert [one.norm for one in find_norms(other)] == ["layer_norm", "layer_norm"]


@pytest.mark.parametrize("norm", [None, "rms_norm"])
def test_pytorchs_encoder_layers_call_the_swapped_norms_in_inference(norm):
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        wanted = model(x)
        swap_norms(model, norm=norm, provider="eager")
        seen = []
        for module in {model.layers[0].norm1, model.layers[0].norm2}:
            # No hook: one alone would keep PyTorch from its fused path.

            def watched(self, x):
                seen.append(self)
                return super(type(self), self).forward(x)

            module.__class__ = type("Watched", (type(module),), {"forward": watched})
        found = model(x)
        assert len(seen) == 2
        model(x, src_key_padding_mask=padding)
        assert len(seen) == 4
    if norm is None:
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_a_whole_swapped_model_compiles_without_a_break(name):
    torch._dynamo.reset()
    family = network(name)
    model, batch = family.build("tiny"), family.batch("tiny")
    wanted = family.outputs(model, batch)
    swap_norms(model, provider="aten")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = family.outputs(compiled, batch)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    family.loss(compiled, batch).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_compiling_provider_computes_within_a_model():
    torch._dynamo.reset()
    model, x = nn.Sequential(nn.Linear(8, 8), LlamaRMSNorm(8)), torch.randn(2, 8)
    wanted = model(x)
    swap_norms(model, provider="compile")
    found = model(x)
    torch.testing.assert_close(found, wanted)
    found.sum().backward()
    assert model[1].weight.grad is not None


def test_tritons_kernels_compute_within_a_model():
    code = """if True:
        import torch
        from torch import nn
        from normbench.models.swap import swap_norms
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), torch.randn(2, 8)
        wanted = model(x)
        assert len(swap_norms(model, provider="triton").replaced) == 1
        torch.testing.assert_close(model(x), wanted)
    """
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"TRITON_INTERPRET": "1"}, check=True, timeout=120)


def test_what_is_left_is_listed_with_reasons():
    model = nn.ModuleDict({"layer": nn.LayerNorm(8), "batch": nn.BatchNorm1d(8), "near": Annotated(48), "rms": LlamaRMSNorm(8)})
    swap = swap_norms(model, provider="transformers")
    assert [one.name for one in swap.replaced] == ["rms"]
    reasons = {one.name: one.reason for one in swap.left}
    assert reasons.keys() == {"layer", "batch", "near"}
    assert reasons["layer"] == "provider 'transformers' does not take it: transformers has no layer_norm"
    assert type(model["layer"]) is nn.LayerNorm


def test_a_model_without_norms_is_refused():
    with pytest.raises(UsageError, match="Sequential has no norm that was found among its 3 modules"):
        swap_norms(nn.Sequential(nn.Linear(8, 8), nn.GELU()))


def test_a_model_none_of_whose_norms_can_be_swapped_is_refused_with_reasons():
    with pytest.raises(UsageError, match="no norm of Sequential can be swapped: 0: BatchNorm1d: it normalises over the batch"):
        swap_norms(nn.Sequential(nn.BatchNorm1d(8)))
    with pytest.raises(UsageError, match="the model itself: it is the whole model"):
        swap_norms(nn.LayerNorm(8))
    with pytest.raises(UsageError, match="0: it is float8_e4m3fn, and providers take float64"):
        swap_norms(nn.Sequential(nn.LayerNorm(8, dtype=torch.float8_e4m3fn, elementwise_affine=True)), provider="aten")


@pytest.mark.skipif(torch.cuda.is_available() or bool(os.environ.get("TRITON_INTERPRET")), reason="Triton's kernels run here")
def test_tritons_kernels_are_refused_where_they_cannot_run():
    with pytest.raises(UsageError, match="0: provider 'triton' needs a GPU, and it is on cpu"):
        swap_norms(nn.Sequential(nn.LayerNorm(8)), provider="triton")


def test_unknown_words_are_refused_before_anything_is_replaced():
    model = nn.Sequential(nn.LayerNorm(8))
    with pytest.raises(UsageError, match="norm 'batch_norm' is unknown; known are layer_norm, rms_norm"):
        swap_norms(model, norm="batch_norm")
    with pytest.raises(UsageError, match="provider 'nobody' is unknown"):
        swap_norms(model, provider="nobody")
    assert type(model[0]) is nn.LayerNorm
