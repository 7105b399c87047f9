"""How far the outputs of a converted model are from those of the model, computed in float64 and as it is stored."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import NormbenchError, UsageError
from ..oracle.problem import dtype_name
from .conversion import convert_model
from .evidence import Batches
from .inference import inference
from .recipe import in_dtype

__all__ = ["Deviation", "first_tensor", "measure_conversion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Hold how far one method's outputs are from the model's own outputs in float64.

    `method` is "copied" (weights copied, biases dropped), "folded", or "unchanged" (the model itself: what its dtype costs anyway). `dtype`
    is the one that was computed in; in float64 nothing was rounded to another one in between. `relative` is norm(y' - y) / norm(y),
    `largest` the largest |y' - y|; None where that is not a finite number.
    """

    inputs: str
    method: str
    dtype: str
    relative: float | None
    largest: float | None


def measure_conversion(model: nn.Module, batches: Batches, outputs: Callable[[Any], Tensor] | None = None) -> tuple[Deviation, ...]:
    """Return the deviations of both methods on every batch, in float64 and, where the model has another dtype, in that one.

    `outputs` picks the compared tensor from what the model returns; by default see `first_tensor`. Two copies of the model in float64
    live beside it. Raises NormbenchError where its own outputs are not finite and UsageError where it does not take a batch.
    """
    pick = first_tensor if outputs is None else outputs
    dtype = next(parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
    exact = copy.deepcopy(model).double()
    wide = {name: in_dtype(batch, torch.float64) for name, batch in batches.items()}
    wanted = _run(exact, wide, pick)
    for name, y in wanted.items():
        if not y.isfinite().all():
            raise NormbenchError(f"the model's outputs for the {name} inputs are not finite: there is nothing to compare with")
    found: list[Deviation] = []
    for method, fold in (("copied", False), ("folded", True)):
        found += _compare(_run(convert_model(exact, fold=fold).model, wide, pick), wanted, method, torch.float64)
    if dtype != torch.float64:
        narrow = {name: in_dtype(batch, dtype) for name, batch in batches.items()}
        found += _compare(_run(model, narrow, pick), wanted, "unchanged", dtype)
        for method, fold in (("copied", False), ("folded", True)):
            found += _compare(_run(convert_model(model, fold=fold).model, narrow, pick), wanted, method, dtype)
    return tuple(found)


def first_tensor(output: Any) -> Tensor:
    """Return the tensor that a model's output is, or its logits, last hidden state or first value. Raises UsageError without a tensor."""
    if isinstance(output, Tensor):
        return output
    for name in ("logits", "last_hidden_state"):
        if isinstance(value := getattr(output, name, None), Tensor):
            return value
    values = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
    for value in values:
        if isinstance(value, Tensor):
            return value
    raise UsageError(f"the model returns {type(output).__name__}, in which there is no tensor to compare")


def _run(model: nn.Module, batches: Batches, pick: Callable[[Any], Tensor]) -> dict[str, Tensor]:
    outputs = {}
    for name, batch in batches.items():
        try:
            with inference(model):
                found = model(**batch)
        except (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            given = ", ".join(f"{argument} {tuple(value.shape)}" for argument, value in batch.items())
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise UsageError(f"{type(model).__name__} does not take the {name} inputs ({given}): {reason}") from error
        outputs[name] = pick(found).double()
    return outputs


def _compare(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], method: str, dtype: torch.dtype) -> list[Deviation]:
    return [
        Deviation(
            inputs=name,
            method=method,
            dtype=dtype_name(dtype),
            relative=_finite((found[name] - y).norm() / y.norm()),
            largest=_finite((found[name] - y).abs().max()),
        )
        for name, y in wanted.items()
    ]


def _finite(value: Tensor) -> float | None:
    return value.item() if value.isfinite() else None
