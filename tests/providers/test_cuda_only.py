"""Providers whose kernels need a GPU: what they say on a machine without one, and what they refuse anywhere, with the reason."""

import importlib

import pytest

from normbench.cases.definition import Definition
from normbench.registry import Registry

from .peers import layer, rms

PACKAGES = {"liger": "liger_kernel", "helion": "helion", "quack": None, "transformer_engine": None, "apex": None}
"""The package that the module of the provider cannot be loaded without."""


def loaded(name):
    """Return the registry with the provider's module, whether or not what its kernels need is installed."""
    if PACKAGES[name] is not None:
        pytest.importorskip(PACKAGES[name], reason=f"needs {PACKAGES[name]}")
    registry = Registry()
    registry.register_module(importlib.import_module(f"normbench.providers.{name}"))
    return registry.resolve(name)


@pytest.mark.parametrize("name", sorted(PACKAGES))
@pytest.mark.parametrize("make", [layer, rms])
def test_a_cpu_is_refused_and_no_interpreter_takes_its_place(name, make):
    case = make(weight_dtype="float32")
    assert "run on CUDA only" in loaded(name).unsupported(case, "cpu").replace("runs", "run")
    assert not loaded(name).is_interpreted(case, "cpu")


@pytest.mark.parametrize("name", sorted(PACKAGES))
@pytest.mark.parametrize("make", [layer, rms])
@pytest.mark.parametrize("residual", [False, True])
def test_float32_forward_is_taken_on_cuda_by_all(name, make, residual):
    assert loaded(name).unsupported(make(residual=residual), "cuda") is None


@pytest.mark.parametrize(
    ("name", "case", "reason"),
    [
        ("liger", rms(dtype="float64"), "liger computes in float32, which is not enough for float64"),
        ("liger", layer(bias=False), "LigerLayerNormFunction needs a weight and a bias"),
        ("liger", rms(bias=True), "LigerRMSNormFunction has no bias"),
        ("liger", rms(shape=(1, 65537)), "liger refuses more than 65536 columns, and here are 65537"),
        ("liger", rms(shape=(4, 0)), "liger takes no rows without columns"),
        ("quack", rms(dtype="float64"), "quack computes in float32, which is not enough for float64"),
        ("quack", rms(convention="llama"), "quack.rmsnorm multiplies by the weight in float32 and rounds once; it has no llama convention"),
        ("quack", layer(dtype="bfloat16"), "quack's layernorm_fwd takes weight and bias in float32 only, and here is bfloat16"),
        ("quack", layer(weight=False), "quack's layernorm_fwd takes weight and bias in float32 only, and here is none"),
        ("quack", rms("backward", (1, 131073)), "quack's backward takes at most 131072 columns of float32, and here are 131073"),
        ("quack", rms(shape=(4, 0)), "quack takes no rows without columns"),
        ("helion", rms("forward_backward"), "forward only: the helion kernels here have no backward"),
        ("helion", rms(dtype="float64"), "the helion kernels here compute in float32, which is not enough for float64"),
        ("helion", rms(convention="gemma"), "the helion kernels here are written for the torch convention, not gemma"),
        ("helion", rms(bias=True), "the helion RMSNorm here has no bias"),
        ("helion", rms(shape=(0, 8)), "the helion kernels here take no empty input"),
        ("transformer_engine", rms(dtype="float64"), "transformer_engine computes in float32, which is not enough for float64"),
        ("transformer_engine", rms(weight=False), "RMSNorm of transformer_engine always has a weight"),
        (
            "transformer_engine",
            rms(dtype="bfloat16", weight_dtype="float32"),
            "RMSNorm of transformer_engine computes in the dtype of its weight: float32 here, for bfloat16",
        ),
        ("transformer_engine", layer(bias=False), "LayerNorm of transformer_engine always has a bias"),
        ("transformer_engine", rms(bias=True), "RMSNorm of transformer_engine has no bias"),
        (
            "transformer_engine",
            rms(convention="llama"),
            "RMSNorm of transformer_engine multiplies by the weight in float32 and rounds once; it has no llama convention",
        ),
        ("transformer_engine", rms(shape=(0, 8)), "transformer_engine takes no empty input"),
        (
            "apex",
            layer(dtype="bfloat16"),
            "apex rounds to bfloat16 before it multiplies by the weight, which only the llama convention of rms_norm does",
        ),
        (
            "apex",
            rms(dtype="float16"),
            "apex rounds to float16 before it multiplies by the weight, which only the llama convention of rms_norm does",
        ),
        ("apex", rms(convention="gemma"), "apex's fused RMSNorm multiplies by the weight, not by 1 + weight"),
        ("apex", layer(bias=False), "apex's fused LayerNorm has weight and bias, or neither"),
        ("apex", rms(bias=True), "apex's fused RMSNorm has no bias"),
        (
            "apex",
            rms(dtype="bfloat16", weight_dtype="float32"),
            "apex's mixed norms return the dtype of the weight: float32 here, for bfloat16",
        ),
        ("apex", rms(shape=(0, 8)), "apex takes no empty input"),
    ],
)
def test_what_it_does_not_compute_is_refused_on_cuda_too(name, case, reason):
    assert loaded(name).unsupported(case, "cuda") == reason


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param("apex", rms(dtype="bfloat16", convention="llama"), id="apex rounds as llama does"),
        pytest.param("apex", layer(dtype="bfloat16", weight=False), id="without a weight there is one rounding"),
        pytest.param("quack", rms(dtype="bfloat16", bias=True), id="quack's RMSNorm has a bias"),
        pytest.param("quack", rms("backward", (1, 131073), "bfloat16"), id="the limit on columns is one of float32"),
        pytest.param("quack", layer("forward_backward", dtype="bfloat16", weight_dtype="float32"), id="quack's LayerNorm"),
        pytest.param(
            "liger", rms("forward_backward", (1, 65536), "bfloat16", weight_dtype="float32", convention="llama"), id="widest of liger"
        ),
        pytest.param("transformer_engine", rms("forward_backward", dtype="bfloat16", convention="gemma"), id="zero-centred gamma"),
    ],
)
def test_what_is_peculiar_to_one_is_taken(name, case):
    assert loaded(name).unsupported(case, "cuda") is None


@pytest.mark.parametrize(
    ("convention", "offset", "mode"),
    [("torch", 0.0, "gemma"), ("llama", 0.0, "llama"), ("gemma", 1.0, "gemma")],
    ids=lambda value: str(value),
)
def test_liger_rounds_as_the_convention_does_and_keeps_the_upstream_gradient(convention, offset, mode):
    settings = loaded("liger").settings(rms(convention=convention))
    assert settings == {"casting_mode": mode, "offset": offset, "in_place": False}


@pytest.mark.parametrize(
    ("case", "definition"),
    [
        pytest.param(rms(dtype="bfloat16", residual=True), Definition.UNROUNDED_SUM, id="16 bits and a residual"),
        pytest.param(rms(dtype="float32", residual=True), Definition.FORMULA, id="float32 is rounded once"),
        pytest.param(rms(dtype="bfloat16"), Definition.FORMULA, id="no residual"),
        pytest.param(layer(dtype="bfloat16", weight_dtype="float32", residual=True), Definition.FORMULA, id="PyTorch adds for LayerNorm"),
    ],
)
def test_quack_normalises_a_16_bit_sum_before_it_is_rounded(case, definition):
    assert loaded("quack").definition(case) is definition
