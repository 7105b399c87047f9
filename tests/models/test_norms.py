"""Norms are found by what they compute."""

import copy

import pytest
import torch
from torch import nn
from transformers.models.cohere.modeling_cohere import CohereLayerNorm
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.olmo.modeling_olmo import OlmoLayerNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

import normbench.nn
from normbench.cases.case import Case, Convention, Norm, Pass
from normbench.models.named import NamedNorm
from normbench.models.networks import network
from normbench.models.norms import case_of_call, find_norms, survey

from .families import PLACES
from .lookalikes import (
    Annotated,
    ChannelsFirst,
    DroppingNorm,
    Fused,
    Gain,
    GatedNorm,
    GuardedNorm,
    OptionallyGatedNorm,
    OutsideRMS,
    PlusOneLayerNorm,
    Quiet,
    Scale,
    SoftmaxNorm,
    WideNorm,
    beside_the_root,
    clamped_length,
    clamped_mean_square,
    zero_for_nan,
)

pytestmark = pytest.mark.usefixtures("one_thread")

LAYER, RMS = "layer_norm", "rms_norm"

NORMS = [
    (nn.LayerNorm(48), (LAYER, (48,), 1e-5, "torch", "weight", "bias")),
    (nn.LayerNorm((4, 12), eps=1e-3, bias=False), (LAYER, (4, 12), 1e-3, "torch", "weight", None)),
    (nn.LayerNorm(48, elementwise_affine=False), (LAYER, (48,), 1e-5, "torch", None, None)),
    (nn.LayerNorm(48, eps=0.0).bfloat16(), (LAYER, (48,), 0.0, "torch", "weight", "bias")),
    # eps None is another number in each dtype.
    (nn.RMSNorm(48), (RMS, (48,), None, "torch", "weight", None)),
    (nn.RMSNorm(12288, eps=1e-12), (RMS, (12288,), 1e-12, "torch", "weight", None)),
    (LlamaRMSNorm(48), (RMS, (48,), 1e-6, "llama", "weight", None)),
    (T5LayerNorm(48), (RMS, (48,), 1e-6, "llama", "weight", None)),
    (GemmaRMSNorm(48), (RMS, (48,), 1e-6, "gemma", "weight", None)),
    (Olmo2RMSNorm(48), (RMS, (48,), 1e-6, "torch", "weight", None)),
    (CohereLayerNorm(48), (LAYER, (48,), 1e-5, "torch", "weight", None)),
    (OlmoLayerNorm(48), (LAYER, (48,), 1e-5, "torch", None, None)),
    (Gain(48), (LAYER, (48,), 3e-5, "torch", "gamma", "beta")),
    (Quiet(48), (RMS, (48,), 2e-6, "llama", "scale", None)),
    (normbench.nn.RMSNorm(48, 1e-6, convention="gemma", provider="triton"), (RMS, (48,), 1e-6, "gemma", "weight", None)),
]

OTHERS = [
    (nn.BatchNorm1d(48), "BatchNorm1d: it normalises over the batch"),
    (nn.GroupNorm(4, 48), "GroupNorm: it normalises over groups of channels"),
    (nn.InstanceNorm1d(48, affine=True), "InstanceNorm1d: it normalises each channel over positions"),
    (Annotated(48), "Annotated: it computes neither layer_norm nor rms_norm: off by at least 0.01"),
    (OutsideRMS(48), "OutsideRMS: it is rms_norm on ordinary values and not on small ones: its eps does not stand inside the root"),
    (PlusOneLayerNorm(48), r"PlusOneLayerNorm: it is layer_norm with a factor of 1 \+ weight"),
    (SoftmaxNorm(48), "SoftmaxNorm: it computes neither layer_norm nor rms_norm"),
    (GatedNorm(48), r"GatedNorm: it cannot be called on one tensor .*: TypeError"),
    (OptionallyGatedNorm(48), "OptionallyGatedNorm: it takes a second input 'gate'"),
    (Fused(48), r"Fused: it takes a second input '\*residual'"),
    (
        ChannelsFirst(48),
        r"ChannelsFirst: it is layer_norm, but not with a dimension more: it cannot be called on one tensor \(1, 2, 2, 48\)",
    ),
    (DroppingNorm(48).eval(), "DroppingNorm: it is layer_norm, but not in training: off by"),
    (WideNorm(48), "WideNorm: it is layer_norm, but returns float32 for bfloat16"),
    (nn.LayerNorm(1), "LayerNorm: a single value is no row to be normed"),
    (nn.LayerNorm(48, device="meta"), "LayerNorm: its parameters are on the meta device"),
    (nn.utils.parametrizations.weight_norm(nn.LayerNorm((4, 12))), "ParametrizedLayerNorm: its parameters are computed anew"),
]

STRANGERS = [
    nn.Linear(48, 48),
    nn.Linear(48, 48, bias=False),
    nn.Embedding(48, 48),
    nn.PReLU(48),
    Scale(48),
    nn.GELU(),
    nn.Dropout(0.5),
    nn.Softmax(-1),
    nn.Identity(),
    nn.Conv2d(3, 3, 3, bias=False),
]


def name_of(value):
    return type(value).__name__ if isinstance(value, nn.Module) else ""


@pytest.mark.parametrize(("module", "expected"), NORMS, ids=name_of)
def test_a_norm_is_told_by_what_it_computes(module, expected):
    (found,) = find_norms(nn.Sequential(module))
    assert (found.norm, found.normalized_shape, found.eps, found.convention, found.weight_name, found.bias_name) == expected
    assert (found.has_weight, found.has_bias) == (expected[4] is not None, expected[5] is not None)
    assert found.module is module
    assert found.name == "0"
    assert found.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert survey(nn.Sequential(module))[1] == ()


@pytest.mark.parametrize(("module", "reason"), OTHERS, ids=name_of)
def test_what_only_looks_like_a_norm_is_left_with_a_reason(module, reason):
    model = nn.Sequential(module)
    assert find_norms(model) == ()
    ((left,),) = survey(model)[1:]
    assert left.name == "0"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(left.reason)


@pytest.mark.parametrize(
    "guard",
    [
        *(make(least) for make in (clamped_length, clamped_mean_square, beside_the_root) for least in (1e-8, 1e-12, 1e-16, 1e-20, 1e-30)),
        zero_for_nan,
    ],
)
def test_a_guard_against_zero_that_is_no_eps_in_the_root_is_never_taken_for_none(guard):
    model = nn.Sequential(GuardedNorm(48, guard))
    assert torch.equal(model(torch.zeros(1, 48)), torch.zeros(1, 48))
    assert find_norms(model) == ()
    assert "its eps does not stand inside the root" in (reason := survey(model)[1][0].reason) or "guards against zero" in reason


def test_a_norm_without_an_eps_divides_by_zero():
    (found,) = find_norms(nn.Sequential(nn.RMSNorm(48, eps=0.0)))
    assert found.eps == 0.0
    assert nn.RMSNorm(48, eps=0.0)(torch.zeros(1, 48)).isnan().all()


def test_the_mode_of_a_norms_parts_stays_too():
    model = nn.Sequential(DroppingNorm(48))
    model[0].dropout.eval()
    survey(model)
    assert (model[0].training, model[0].dropout.training) == (True, False)


@pytest.mark.parametrize("module", STRANGERS, ids=name_of)
def test_other_modules_are_not_spoken_of(module):
    assert find_norms(nn.Sequential(module)) == ()
    assert survey(nn.Sequential(module))[1] == ()


@pytest.mark.parametrize("name", PLACES)
def test_every_norm_of_a_family_is_found_and_is_of_its_kind(name):
    family = network(name)
    model = family.build("tiny")
    found = find_norms(model)
    assert len(found) == sum(PLACES[name].values())
    assert {one.norm for one in found} == {family.norm}
    assert survey(model) == (found, ())
    for one in found:
        assert model.get_submodule(one.name) is one.module


def test_looking_changes_nothing():
    model = nn.Sequential(Quiet(48), nn.LayerNorm(48), nn.Dropout(0.5)).train()
    model[1].weight.grad = torch.full((48,), 7.0)
    calls = []
    model[1].register_forward_hook(lambda *_: calls.append(1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attributes = [copy.copy(vars(module)) for module in model]
    state = torch.random.get_rng_state()
    assert len(find_norms(model)) == 2
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    assert calls == []
    assert model[0].calls == []
    assert torch.equal(model[1].weight.grad, torch.full((48,), 7.0))
    assert model[0].scale.grad is None
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    for module, known in zip(model, attributes, strict=True):
        assert vars(module) == known


def test_autocast_and_inference_mode_around_it_do_not_matter():
    model = nn.Sequential(LlamaRMSNorm(48))
    plain = find_norms(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert find_norms(model) == plain
    with torch.inference_mode():
        assert find_norms(model) == plain


def test_a_forward_that_was_replaced_on_one_instance_is_not_trusted():
    module = nn.LayerNorm(48)
    module.forward = lambda x: x
    assert find_norms(nn.Sequential(module)) == ()
    assert "its forward was replaced" in survey(nn.Sequential(module))[1][0].reason


def test_a_norm_that_stands_in_two_places_is_found_once():
    shared = nn.LayerNorm(48)
    (found,) = find_norms(nn.Sequential(shared, nn.GELU(), shared))
    assert found.name == "0"


def called(module, x):
    (found,) = find_norms(module)
    return case_of_call(found, x, Pass.FORWARD)


def test_call_is_a_case_of_the_op_tier_over_the_product_of_the_norms_dimensions():
    assert called(nn.LayerNorm((3, 8)), torch.zeros(2, 5, 3, 8)) == Case.make("layer_norm", "forward", (2, 5, 24), "float32")
    mixed = nn.LayerNorm(8, bias=False).bfloat16()
    expected = Case.make("layer_norm", "forward", (2, 8), "float32", weight_dtype="bfloat16", bias=False)
    assert called(mixed, torch.zeros(2, 8)) == expected


@pytest.mark.parametrize(("dtype", "eps"), [("float64", 2.0**-52), ("float32", 2.0**-23), ("bfloat16", 2.0**-23)])
def test_no_eps_is_that_of_the_dtype_that_is_computed_in(dtype, eps):
    module = nn.RMSNorm(8, dtype=getattr(torch, dtype))
    assert called(module, torch.zeros(2, 8, dtype=getattr(torch, dtype))).eps == eps


def test_parameters_are_found_whatever_they_are_called():
    module = NamedNorm(Norm.LAYER_NORM, (8,), eps=1e-5, convention=Convention.TORCH, weight_name="gain", bias_name="shift", provider=None)
    module.gain, module.shift = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))
    assert called(module, torch.zeros(2, 8)) == Case.make("layer_norm", "forward", (2, 8), "float32")


def test_call_in_a_dtype_that_no_norm_takes_is_no_case():
    assert called(nn.LayerNorm(8), torch.zeros(2, 8, dtype=torch.int32)) is None
