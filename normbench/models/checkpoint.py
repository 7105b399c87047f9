"""Checkpoints: tensors by name in a file, read without running code from it, fitted to a model, written."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..storage.files import explained, write_atomically

__all__ = ["load_into", "read_tensors", "write_tensors"]

SAFETENSORS = ".safetensors"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name, on the CPU: of a .safetensors file, or else of one written by torch.save.

    Only tensors are unpickled. Raises UsageError for a file that is not there, cannot be read, or holds anything else.
    """
    if not path.is_file():
        raise UsageError(f"file {str(path)!r} does not exist")
    try:
        if path.suffix == SAFETENSORS:
            _require_safetensors(path)
            from safetensors.torch import load_file

            tensors: dict[str, Tensor] = load_file(path)
            return tensors
        found = torch.load(path, map_location="cpu", weights_only=True)
    except UsageError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"file {str(path)!r} cannot be read as tensors by name: {type(error).__name__}: {reason}") from error
    if not isinstance(found, Mapping):
        raise UsageError(f"file {str(path)!r} holds a {type(found).__name__}, not tensors by name: save the model's state_dict()")
    for name, value in found.items():
        if not isinstance(value, Tensor):
            raise UsageError(f"file {str(path)!r} holds a {type(value).__name__} at {name!r}, not a tensor: save the state_dict() alone")
    return dict(found)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name: a .safetensors file, or else one that torch.load reads. Raises UsageError for a file that is there already."""
    if path.exists():
        raise UsageError(f"file {str(path)!r} exists: name another one")
    # Neither format needs to know that tensors were tied or are views.
    own = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    if path.suffix == SAFETENSORS:
        _require_safetensors(path)
        from safetensors.torch import save

        data = save(own, metadata={"format": "pt"})
    else:
        buffer = io.BytesIO()
        torch.save(own, buffer)
        data = buffer.getvalue()
    with explained(f"cannot write {path}"):
        write_atomically(path, data)


def load_into(model: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Load a checkpoint into a model of the same architecture; where all its numbers have one dtype, the model takes it.

    Keys may lack the name of the model's body, as those of a Hugging Face base model do, and one name of a tied tensor is enough. Raises
    UsageError naming the first key that is missing, not expected, of another shape, or not tied there; `origin` names the checkpoint.
    """
    own = model.state_dict()
    found = {_with_prefix(model, name, own): tensor for name, tensor in tensors.items()}
    ignored = [re.compile(pattern) for pattern in getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()]
    found = {name: tensor for name, tensor in found.items() if name in own or not any(pattern.search(name) for pattern in ignored)}
    names: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names.setdefault(tensor.data_ptr(), []).append(name)
    for name, tensor in found.items():
        if name not in own:
            raise UsageError(f"{origin} has the key {name!r}, which {type(model).__name__} has not: give the model that it was saved from")
        if tensor.shape != own[name].shape:
            sizes = f"{tuple(tensor.shape)} in it and {tuple(own[name].shape)} in {type(model).__name__}"
            raise UsageError(f"{origin} does not fit: {name!r} has shape {sizes}; give a model of the checkpoint's sizes")
    for name, tensor in own.items():
        tied = [other for other in names[tensor.data_ptr()] if other in found] if tensor.numel() else [name]
        if not tied:
            raise UsageError(f"{origin} lacks the key {name!r} of {type(model).__name__}: give the model that it was saved from")
        for other in tied[1:]:
            if not torch.equal(found[tied[0]], found[other]):
                raise UsageError(f"{origin} has two values for {tied[0]!r} and {other!r}, one tensor in {type(model).__name__}: untie them")
    dtypes = {tensor.dtype for tensor in found.values() if tensor.is_floating_point()}
    if len(dtypes) == 1:
        model.to(dtypes.pop())
    model.load_state_dict(found, strict=False)


def _with_prefix(model: nn.Module, name: str, own: Mapping[str, Tensor]) -> str:
    body = getattr(model, "base_model_prefix", "")
    return f"{body}.{name}" if body and name not in own and f"{body}.{name}" in own else name


def _require_safetensors(path: Path) -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise UsageError(
            f"file {str(path)!r} needs safetensors, not installed here: pip install safetensors, or use another suffix such as .pt"
        )
