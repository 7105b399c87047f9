"""Benchmark LayerNorm and RMSNorm: which normalisation, which kernel, how much faster, at which scope."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import models, nn
    from .cases.case import Case
    from .cases.conditions import Conditions
    from .errors import NormbenchError, UsageError
    from .functional import apply
    from .registry import provider
    from .report.frame import load

__all__ = ["Case", "Conditions", "NormbenchError", "UsageError", "__version__", "apply", "load", "models", "nn", "provider"]

# Names are imported on first use: `normbench --help` and a plain pytest run must not pay for pandas or torch.
_HOMES = {
    "Case": ".cases.case",
    "Conditions": ".cases.conditions",
    "NormbenchError": ".errors",
    "UsageError": ".errors",
    "apply": ".functional",
    "load": ".report.frame",
    "models": ".models",
    "nn": ".nn",
    "provider": ".registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name], __name__)
    value = home if _HOMES[name] == f".{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
