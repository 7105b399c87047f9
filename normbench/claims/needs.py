"""Which parts of a published scope are here, and which are not."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

import torch

from ..errors import NormbenchError

__all__ = ["unmet"]

_REASONS = {
    "dataset": "needs {}: this package trains on no data set",
    "hardware": "was measured on {}",
    "training": "is about training {}, which is beyond this package",
    "baseline": "is against {}, which nobody has published",
}


def _device(name: str) -> str | None:
    return None if name == "cuda" and torch.cuda.is_available() else f"needs a {name} device, and there is none here"


def _package(name: str) -> str | None:
    return None if importlib.util.find_spec(name) is not None else f"needs {name}, which is not installed"


_CHECKS: dict[str, Callable[[str], str | None]] = {"device": _device, "framework": _package, "package": _package}


def unmet(needs: Sequence[str]) -> tuple[str, ...]:
    """Return a reason for every need, such as `device:cuda` or `dataset:ImageNet`, that is not met here.

    Raises NormbenchError for a kind of need that is unknown.
    """
    found = []
    for need in needs:
        kind, _, what = need.partition(":")
        if kind in _CHECKS:
            reason = _CHECKS[kind](what)
        elif kind in _REASONS:
            reason = _REASONS[kind].format(what)
        else:
            raise NormbenchError(f"need {need!r} is of an unknown kind; known are {', '.join([*_CHECKS, *_REASONS])}")
        if reason:
            found.append(reason)
    return tuple(found)
