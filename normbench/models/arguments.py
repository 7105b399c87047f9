"""What a module's forward takes: the name of its input, and what it would take besides."""

from __future__ import annotations

import inspect

from torch import nn

__all__ = ["first_input", "further_inputs"]

_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def first_input(module: nn.Module) -> str | None:
    """Return the name by which a module's forward takes its input, or None where it has none that a caller could use."""
    for parameter in _parameters(module)[:1]:
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            return parameter.name
    return None


def further_inputs(module: nn.Module) -> tuple[str, ...]:
    """Return the names of what a module's forward takes besides its input, the rest of all arguments with its stars."""
    return tuple(_STARS.get(parameter.kind, "") + parameter.name for parameter in _parameters(module)[1:])


def _parameters(module: nn.Module) -> list[inspect.Parameter]:
    return list(inspect.signature(module.forward).parameters.values())
