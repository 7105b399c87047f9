"""How other people's packages are imported into a process that will be forked, and leave nothing behind in its environment."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType

__all__ = ["import_before_fork"]


def import_before_fork(name: str, environment: Mapping[str, str] | None = None) -> ModuleType:
    """Import a module, with variables set for that time, and return it; os.environ is afterwards as it was before.

    Some packages ask torch.cuda.is_available() while they are imported. PyTorch would then initialise the CUDA runtime, which forked
    processes cannot use any more; with this variable it asks NVML (torch.cuda.is_available, documentation).
    """
    before = dict(os.environ)
    os.environ.update({"PYTORCH_NVML_BASED_CUDA_CHECK": "1", **(environment or {})})
    try:
        return importlib.import_module(name)
    finally:
        for variable in os.environ.keys() - before.keys():
            del os.environ[variable]
        os.environ.update(before)
