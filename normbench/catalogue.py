"""The built-in providers: the module of each, and what those of other people's code need. Known without importing any of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["BUILT_IN", "REQUIREMENTS", "Requirement"]

BUILT_IN = {
    "eager": "eager",
    "aten": "aten",
    "compile": "compiled",
    "triton": "triton",
    "guide": "guide",
    "transformers": "transformers",
    "transformers_t5": "transformers",
    "onnxruntime": "onnxruntime",
    "keras": "keras",
    "liger": "liger",
    "quack": "quack",
    "helion": "helion",
    "transformer_engine": "transformer_engine",
    "apex": "apex",
}
"""Name of each built-in provider and the module of `providers/` that defines it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Name the top-level modules that a provider calls and does not bring, and the command that installs them."""

    modules: tuple[str, ...]
    command: str

    def missing(self) -> str | None:
        """Return what is not installed and how to get it, or None; nothing is imported for it."""
        absent = [module for module in self.modules if importlib.util.find_spec(module) is None]
        if not absent:
            return None
        return f"needs {' and '.join(absent)}, not installed here: {self.command}"


def _extra(name: str, *modules: str, options: str = "") -> Requirement:
    return Requirement(modules=modules, command=f"pip install {options}'normbench[{name}]'")


REQUIREMENTS: Mapping[str, Requirement] = {
    "transformers": _extra("transformers", "transformers"),
    "transformers_t5": _extra("transformers", "transformers"),
    "onnxruntime": _extra("onnxruntime", "onnxruntime", "onnx"),
    "keras": _extra("keras", "keras"),
    "liger": _extra("liger", "liger_kernel"),
    # A package named quack without CUTLASS beside it is another one.
    "quack": _extra("quack", "quack", "cutlass"),
    "helion": _extra("helion", "helion"),
    # Its PyTorch part is compiled where it is installed, against the torch that is there.
    "transformer_engine": _extra("transformer-engine", "transformer_engine", "transformer_engine_torch", options="--no-build-isolation "),
    # Not on PyPI, where `apex` is a toolkit for the web framework Pyramid; the second module is what its CUDA build adds.
    "apex": Requirement(
        modules=("apex", "fused_layer_norm_cuda"),
        command="APEX_CPP_EXT=1 APEX_CUDA_EXT=1 pip install -v --no-build-isolation git+https://github.com/NVIDIA/apex",
    ),
}
"""What providers need besides what normbench itself depends on."""
