"""A model to work on: a network by its name, or what a function in a user's file returns, with inputs for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UsageError
from .deviation import first_tensor
from .networks import network

__all__ = ["Subject", "load_subject"]

ROWS, TOKENS = 2, 64
"""Made-up inputs of a model that says no more than what it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Hold a model, a batch of its keyword arguments (None where nobody says what it takes), and what picks its output to compare."""

    label: str
    model: nn.Module
    batch: dict[str, Tensor] | None
    outputs: Callable[[Any], Tensor]


def load_subject(spec: str, *, preset: str = "tiny", seed: int = 0) -> Subject:
    """Return the network of a name, in a preset, or the model that `path.py:function` makes.

    The function takes no arguments and returns a module, or a module and a dict of tensors, its keyword arguments. Without that dict a
    Hugging Face model gets made-up tokens or pixels. Raises UsageError for an unknown name, a file or function that is not there or
    fails, and what is no module.
    """
    path, _, function = spec.rpartition(":")
    if spec.endswith(".py"):
        raise UsageError(f"{spec!r} names a file only: name the function that makes the model too, as in {spec}:make")
    if not path.endswith(".py"):
        found = network(spec)
        model = found.build(preset, seed=seed)
        return Subject(label=f"{spec} ({preset})", model=model, batch=found.batch(preset, seed=seed), outputs=found.recipe.output)
    made = _call(Path(path), function, seed)
    model, batch = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        raise UsageError(f"{spec} returned a {type(made).__name__}: return a torch.nn.Module, or one and a dict of its keyword arguments")
    return Subject(label=spec, model=model, batch=_made_up(model, seed) if batch is None else dict(batch), outputs=first_tensor)


def _call(path: Path, function: str, seed: int) -> Any:
    if not path.is_file():
        raise UsageError(f"file {str(path)!r} does not exist")
    spec = importlib.util.spec_from_file_location(f"_normbench_model_{path.stem}", path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            spec.loader.exec_module(module)
            if not callable(make := getattr(module, function, None)):
                raise UsageError(f"file {str(path)!r} has no function {function!r}")
            return make()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path}:{function} failed: {type(error).__name__}: {error}") from error


def _made_up(model: nn.Module, seed: int) -> dict[str, Tensor] | None:
    """Return inputs by a Hugging Face configuration, or None where there is none that says enough."""
    config, generator = getattr(model, "config", None), torch.Generator().manual_seed(seed)
    name = getattr(model, "main_input_name", None)
    if name == "input_ids" and isinstance(vocabulary := getattr(config, "vocab_size", None), int):
        length = min(TOKENS, getattr(config, "max_position_embeddings", TOKENS))
        return {name: torch.randint(vocabulary, (ROWS, length), generator=generator)}
    if name == "pixel_values" and isinstance(size := getattr(config, "image_size", None), int):
        pixels = torch.randn(ROWS, getattr(config, "num_channels", 3), size, size, generator=generator)
        return {name: pixels.to(next(model.parameters()).dtype)}
    return None
