"""What the engine asks of a workload, whatever the tier: calls of all arms, on tensors that are new in every repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

__all__ = ["Repetition", "Workload"]


class Repetition(Protocol):
    """Hold the calls of one repetition, and with them the tensors that they work on.

    `restores` has, by arm, what must happen before each call, outside the clock. `input_bytes` is the size of an input, 0 where calls
    take none of a size worth telling.
    """

    @property
    def calls(self) -> Mapping[str, Callable[[], Any]]: ...

    @property
    def restores(self) -> Mapping[str, Callable[[], None]]: ...

    @property
    def input_bytes(self) -> int: ...

    def controls(self) -> Mapping[str, Callable[[], Any]]:
        """Return the calls that run along and depend on no provider."""
        ...

    def begin(self) -> None:
        """Put all arms at the same point of their work: calls that warmed them up were not equally many."""
        ...


class Workload(Protocol):
    """Make repetitions of one case, or of a few that take turns, in one process."""

    def prepare(self) -> None:
        """Make once what all repetitions use, so that the first one takes no longer than the others."""
        ...

    def repetition(self, seed: int) -> Repetition:
        """Return newly allocated tensors and the calls of all arms on them."""
        ...
