"""What is known of each module of a network beside its time: its class, what it is for, and what a norm is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..cases.case import Case, Pass
from .kinds import kinds_of
from .summary import Module

if TYPE_CHECKING:
    from ..models.norms import FoundNorm

__all__ = ["describe_modules"]


def describe_modules(model: nn.Module, step: Callable[[], Any]) -> dict[str, Module]:
    """Return what is known of each module by its path; a step runs, to see what norms are given."""
    from ..models.norms import find_norms

    norms = {found.name: found for found in find_norms(model)}
    classes = {path: type(module).__name__ for path, module in model.named_modules()}
    kinds = kinds_of(classes, norms)
    cases = _norm_cases(model, step, norms)
    return {path: Module(class_name=name, kind=kinds[path], norm_cases=tuple(cases.get(path, ()))) for path, name in classes.items()}


def _norm_cases(model: nn.Module, step: Callable[[], Any], norms: Mapping[str, FoundNorm]) -> dict[str, list[Case]]:
    """Return a forward case for each call of each norm in one step; none for a call whose dtype is none that a case has."""
    from ..models.norms import case_of_call

    cases: dict[str, list[Case]] = {path: [] for path in norms}

    def seen(path: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def note(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            x = next(value for value in (*arguments, *options.values()) if isinstance(value, torch.Tensor))
            if (case := case_of_call(norms[path], x, Pass.FORWARD)) is not None:
                cases[path].append(case)

        return note

    handles = [norms[path].module.register_forward_pre_hook(seen(path), with_kwargs=True) for path in norms]
    try:
        model.zero_grad(set_to_none=True)
        step()
    finally:
        for handle in handles:
            handle.remove()
    return cases
