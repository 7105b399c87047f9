"""What is profiled: a network of the model tier by name or case id, or one that a user's file makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..cases.case import DType, Pass
from ..cases.model_case import MODEL_PASSES, ModelCase
from ..cases.shape import shape_text
from ..errors import UsageError
from ..models.networks import PRESETS, network
from ..models.sources import Subject as Loaded
from ..models.sources import load_subject
from ..models.swap import swap_norms
from ..oracle.problem import dtype_name, torch_dtype
from ..text.words import member

__all__ = ["Subject", "Wish", "make_subjects"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Hold what a user asks for; None is what the network or the id says, else the default: both passes, float32, norms as they are."""

    case: str
    norm: str | None = None
    provider: str | None = None
    passes: tuple[str, ...] | None = None
    dtype: str | None = None
    device: str = "cpu"
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Hold a network on its device and one step of it. `norms` says who computes its norms, `left` which norms could not be exchanged."""

    label: str
    pass_: Pass
    size: str
    dtype: str
    device: str
    norms: str
    left: tuple[str, ...]
    model: nn.Module
    step: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Network:
    """Hold a network, its inputs, and what a forward and a training step of it are before their gradients."""

    label: str
    size: str
    dtype: str
    model: nn.Module
    forward: Callable[[], Any]
    loss: Callable[[], Tensor]


def make_subjects(wish: Wish) -> list[Subject]:
    """Return what to profile for each pass asked for. Raises UsageError for a network, a file, a word or an option that does not fit."""
    if ".py" not in wish.case and "/" in wish.case:
        wish, size = _as_case_says(wish)
    else:
        size = None
    passes = [_pass(word) for word in wish.passes or MODEL_PASSES]
    made = _from_file(wish) if ".py" in wish.case else _named(wish)
    if size not in (None, made.size):
        raise UsageError(f"the size of {made.label} is {made.size}, not {size}: a preset has one size")
    left: tuple[str, ...] = ()
    if wish.norm is not None or wish.provider is not None:
        swap = swap_norms(made.model, norm=wish.norm, provider=wish.provider)
        left = tuple(f"{one.name}: {one.reason}" for one in swap.left)
    return [_subject(made, pass_, wish, left) for pass_ in passes]


def _as_case_says(wish: Wish) -> tuple[Wish, str]:
    """Return the wish with network, norm, pass and dtype of a case id, and the size that the id gives."""
    case = ModelCase.from_id(wish.case)
    for option, given in (("norm", wish.norm), ("pass", wish.passes), ("dtype", wish.dtype)):
        if given:
            word = given if isinstance(given, str) else ",".join(given)
            raise UsageError(f"{option} {word!r} beside the case id {wish.case!r}, which says it: leave one of the two out")
    norm = None if case.norm is network(case.network).norm else case.norm.value
    return replace(wish, case=case.label, norm=norm, passes=(case.pass_.value,), dtype=case.dtype.value), case.shape_label


def _pass(word: str) -> Pass:
    if word not in MODEL_PASSES:
        raise UsageError(f"pass {word!r} is none that a network is profiled in; known are {', '.join(MODEL_PASSES)}")
    return Pass(word)


def _subject(made: _Network, pass_: Pass, wish: Wish, left: tuple[str, ...]) -> Subject:
    def forward() -> None:
        with torch.no_grad():
            made.forward()

    def train() -> None:
        torch.autograd.backward(made.loss())

    swapped = f"{wish.norm or 'norms'} by {wish.provider or 'the default provider'}"
    return Subject(
        label=made.label,
        pass_=pass_,
        size=made.size,
        dtype=made.dtype,
        device=wish.device,
        norms="norms as they are" if wish.norm is None and wish.provider is None else swapped,
        left=left,
        model=made.model,
        step=train if pass_.has_backward else forward,
    )


def _named(wish: Wish) -> _Network:
    """Return the network of a name such as `gpt2` or `gpt2-full`; without a preset the first one."""
    name, _, preset = wish.case.rpartition("-")
    if preset not in PRESETS:
        name, preset = wish.case, PRESETS[0]
    found = network(name)
    dtype = member(DType, wish.dtype or DType.FLOAT32, "dtype")
    model = found.build(preset, dtype=torch_dtype(dtype), device=wish.device, seed=wish.seed)
    batch = found.batch(preset, seed=wish.seed, device=wish.device, dtype=torch_dtype(dtype))
    return _Network(
        label=f"{name}-{preset}",
        size=shape_text(found.size(preset)),
        dtype=dtype.value,
        model=model,
        forward=lambda: found.outputs(model, batch),
        loss=lambda: found.loss(model, batch),
    )


def _from_file(wish: Wish) -> _Network:
    """Return the network that `path.py:function` makes. Its loss is the `loss` of what it returns, else the mean square of its output."""
    if wish.dtype:
        raise UsageError(f"dtype {wish.dtype!r} beside {wish.case!r}: a file makes its network in the dtype that it wants")
    loaded = load_subject(wish.case, seed=wish.seed)
    if not loaded.batch:
        raise UsageError(f"{wish.case} says nothing of its inputs: return the module and a dict of its keyword arguments")
    model = loaded.model.to(wish.device)
    batch = {name: tensor.to(wish.device) for name, tensor in loaded.batch.items()}
    main = next(iter(batch.values()))
    dtype = next((parameter.dtype for parameter in model.parameters()), main.dtype)
    return _Network(
        label=wish.case,
        size=shape_text(main.shape),
        dtype=dtype_name(dtype),
        model=model,
        forward=lambda: model(**batch),
        loss=lambda: _loss(model(**batch), loaded),
    )


def _loss(output: Any, loaded: Loaded) -> Tensor:
    loss = getattr(output, "loss", None)
    found = loss if isinstance(loss, Tensor) else loaded.outputs(output).float().pow(2).mean()
    if not found.requires_grad:
        raise UsageError(f"{loaded.label}: its output has no gradient, so there is no training step; use --pass forward")
    return found
