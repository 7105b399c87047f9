"""Tasks whose arguments and results are opened where they are used: the processes that only hand them on import none of their modules."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from ..measure.worker import resolved

__all__ = ["RUN", "RUN_RESIDENT", "run", "run_resident", "seal", "unseal"]

RUN = f"{__name__}:run"
RUN_RESIDENT = f"{__name__}:run_resident"


def seal(task: str, argument: Any) -> tuple[str, bytes]:
    """Return what `run` and `run_resident` take: a `module:function` and its argument."""
    return task, pickle.dumps(argument)


def unseal(value: bytes) -> Any:
    """Return what a task emitted."""
    return pickle.loads(value)


def run(sealed: tuple[str, bytes], emit: Callable[[bytes], None]) -> None:
    """Run `module:function(argument, emit)`, everything it emits sealed."""
    task, argument = sealed
    resolved(task)(pickle.loads(argument), lambda value: emit(pickle.dumps(value)))


def run_resident(sealed: tuple[str, bytes]) -> None:
    """Run `module:function(argument)` in the process that is asked for it."""
    task, argument = sealed
    resolved(task)(pickle.loads(argument))
