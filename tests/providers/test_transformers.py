"""The norms of Hugging Face models: which class stands for which convention, and what each cannot do."""

import pytest
from hypothesis import assume, given, settings

from normbench.registry import Registry

from .peers import cases, failure, layer, rms

pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.usefixtures("one_thread")


def unsupported(case, name="transformers"):
    return Registry().resolve(name).unsupported(case, "cpu")


@given(case=cases(norms=["rms_norm"], passes=("forward", "forward_backward"), weight=True, conventions=("torch", "llama", "gemma")))
@settings(deadline=None, max_examples=50)
def test_whatever_is_not_refused_is_right(case):
    assume(unsupported(case) is None)
    assert failure("transformers", case) == ""


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(
    ("dtype", "convention"),
    [("float32", "torch"), ("float32", "llama"), ("bfloat16", "llama"), ("float16", "llama")],
    ids=lambda value: value,
)
def test_t5_is_right_in_what_it_takes(dtype, convention, residual):
    case = rms("forward_backward", (65, 96), dtype, convention=convention, residual=residual)
    assert unsupported(case, "transformers_t5") is None
    assert failure("transformers_t5", case) == ""


@pytest.mark.parametrize(
    ("convention", "name"), [("torch", "Olmo2RMSNorm"), ("llama", "LlamaRMSNorm"), ("gemma", "GemmaRMSNorm")], ids=lambda value: value
)
def test_each_convention_is_a_class_that_rounds_that_way(convention, name):
    case = rms("forward_backward", (65, 96), "bfloat16", convention=convention)
    assert Registry().resolve("transformers").settings(case) == {"class": name}
    assert failure("transformers", case) == ""


def test_a_float32_weight_beside_bfloat16_is_right_in_the_classes_that_return_the_dtype_of_x():
    for convention in ("torch", "gemma"):
        assert failure("transformers", rms("forward_backward", (65, 96), "bfloat16", weight_dtype="float32", convention=convention)) == ""


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param(layer(), "transformers has no layer_norm", id="layer_norm"),
        pytest.param(rms(weight=False), "Olmo2RMSNorm always has a weight", id="no weight"),
        pytest.param(rms(bias=True), "Olmo2RMSNorm has no bias", id="bias"),
        pytest.param(rms(dtype="float64"), "Olmo2RMSNorm computes in float32, which is not enough for float64", id="float64"),
        pytest.param(
            rms(dtype="bfloat16", weight_dtype="float32", convention="llama"),
            "LlamaRMSNorm returns float32 for bfloat16 beside a float32 weight",
            id="mixed dtypes",
        ),
    ],
)
def test_what_the_classes_cannot_do_is_refused(case, reason):
    assert unsupported(case) == reason


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param(rms(dtype="float32"), None, id="float32 is both conventions"),
        pytest.param(rms(dtype="bfloat16", convention="llama"), None, id="16 bits are llama's"),
        pytest.param(
            rms(dtype="bfloat16"), "rounds to bfloat16 before it multiplies by the weight: ask for the llama convention", id="torch"
        ),
        pytest.param(rms(convention="gemma"), "multiplies by the weight, not by 1 + weight", id="gemma"),
        pytest.param(rms(weight_dtype="bfloat16"), "returns the dtype of its weight: bfloat16 here, for float32", id="mixed dtypes"),
    ],
)
def test_t5_is_named_for_what_it_is(case, reason):
    assert unsupported(case, "transformers_t5") == (None if reason is None else f"T5LayerNorm {reason}")


def test_what_t5_is_refused_for_is_so():
    import torch
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    norm = T5LayerNorm(8).to(torch.bfloat16)
    assert norm(torch.ones(1, 8)).dtype == torch.bfloat16
