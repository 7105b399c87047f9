"""The provider `compile`: the hand-written functions of `eager`, through torch.compile, afresh for each case."""

from __future__ import annotations

import itertools
from types import FunctionType
from typing import Any

import torch

from ..cases.case import Case, Pass
from ..registry import NormFunction, provider
from .eager import function_of

__all__ = ["compiled", "compiled_settings"]

_serial = itertools.count()


def compiled_settings(case: Case) -> dict[str, Any]:
    """Return how the case is compiled, and what the measuring code must set while it compiles and runs.

    To time the backward alone `torch._functorch.config.donated_buffer` must be False: the graph is kept and run backward many times,
    which a compiled graph that gives its saved buffers away refuses.
    """
    settings: dict[str, Any] = {"dynamic": False, "fullgraph": True}
    if case.pass_ is Pass.BACKWARD:
        settings["donated_buffer"] = False
    return settings


@provider("compile", norms=["layer_norm", "rms_norm"], per_case=True, settings=compiled_settings)
def compiled(case: Case) -> NormFunction:
    """Compute the case with its hand-written function, compiled for it alone; the first call compiles."""
    # Dynamo keeps what it compiled with the code object, not with the function returned here. A code object of its own gives each
    # case an empty cache: sizes never turn dynamic, the limit of 8 recompiles is never met, the order of cases does not matter, and
    # nothing compiled earlier is thrown away as torch._dynamo.reset() would.
    function = function_of(case)
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(_serial)}")
    fresh = FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)
    compiled_function: NormFunction = torch.compile(fresh, dynamic=False, fullgraph=True)
    return compiled_function
