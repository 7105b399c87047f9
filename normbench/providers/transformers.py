"""The providers `transformers` and `transformers_t5`: the RMSNorm classes of Hugging Face models, as their authors wrote them.

`transformers` takes the class whose rounding is that of the case's convention: LlamaRMSNorm rounds to the dtype of x before it
multiplies by the weight, Olmo2RMSNorm after, GemmaRMSNorm after multiplying by 1 + weight. `transformers_t5` is T5LayerNorm, an RMSNorm in
spite of its name, which rounds to the dtype of the weight where that has 16 bits, and else returns float32: the llama
convention where x and weight have the same dtype. In float32 the two conventions are one.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from ..cases.case import Case, Convention, DType
from ..registry import NormFunction, provider

__all__ = ["t5_unsupported", "transformers", "transformers_t5", "transformers_unsupported"]

_T5: Any = T5LayerNorm
_CLASSES: dict[Convention, Any] = {Convention.TORCH: Olmo2RMSNorm, Convention.LLAMA: LlamaRMSNorm, Convention.GEMMA: GemmaRMSNorm}


def _unsupported(case: Case, name: str) -> str | None:
    if case.weight_dtype is None:
        return f"{name} always has a weight"
    if case.bias:
        return f"{name} has no bias"
    if DType.FLOAT64 in (case.dtype, case.weight_dtype):
        return f"{name} computes in float32, which is not enough for float64"
    return None


def transformers_unsupported(case: Case, device: str) -> str | None:
    """Return why the class of the case's convention does not take it, or None."""
    name = _CLASSES[case.convention].__name__
    if reason := _unsupported(case, name):
        return reason
    assert case.weight_dtype is not None
    if case.convention is Convention.LLAMA and case.weight_dtype is not case.dtype and case.dtype is not DType.FLOAT32:
        return f"{name} returns float32 for {case.dtype.value} beside a {case.weight_dtype.value} weight"
    return None


def t5_unsupported(case: Case, device: str) -> str | None:
    """Return why T5LayerNorm does not compute the case, or None."""
    name = T5LayerNorm.__name__
    if reason := _unsupported(case, name):
        return reason
    assert case.weight_dtype is not None
    if case.weight_dtype is not case.dtype:
        return f"{name} returns the dtype of its weight: {case.weight_dtype.value} here, for {case.dtype.value}"
    if case.convention is Convention.GEMMA:
        return f"{name} multiplies by the weight, not by 1 + weight"
    if case.convention is Convention.TORCH and case.dtype is not DType.FLOAT32:
        return f"{name} rounds to {case.dtype.value} before it multiplies by the weight: ask for the llama convention"
    return None


def _function_of(norm: Any) -> NormFunction:
    # The weight goes where the module's own parameter lies, so that a call looks it up as a model's does.
    parameters = norm._parameters

    def function(
        x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float
    ) -> Tensor | tuple[Tensor, Tensor]:
        parameters["weight"] = weight
        if residual is None:
            y: Tensor = norm(x)
            return y
        hidden = x + residual
        return norm(hidden), hidden

    return function


def _class_of(case: Case) -> dict[str, Any]:
    return {"class": _CLASSES[case.convention].__name__}


@provider("transformers", norms=["rms_norm"], per_case=True, supports=transformers_unsupported, settings=_class_of)
def transformers(case: Case) -> NormFunction:
    """Compute the case with the class whose rounding is that of its convention."""
    return _function_of(_CLASSES[case.convention](case.cols, eps=case.eps))


@provider("transformers_t5", norms=["rms_norm"], per_case=True, supports=t5_unsupported, settings={"class": "T5LayerNorm"})
def transformers_t5(case: Case) -> NormFunction:
    """Compute the case with T5LayerNorm."""
    return _function_of(_T5(case.cols, eps=case.eps))
