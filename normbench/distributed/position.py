"""Where each rank is, written down as it goes, so that of ranks that wait for each other the one that hangs can be told."""

from __future__ import annotations

import faulthandler
import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

__all__ = ["Position", "PositionWriter", "hanging", "read_positions"]

_LENGTH_BYTES = 240

_EARLY = 0.9
"""Part of the time limit after which a process writes down where its threads are, before it is ended."""

_WAITING = re.compile(r"torch/(distributed|autograd/graph|cuda)\b.*")
"""Files whose functions wait for other ranks: collectives, and the backward in which gradients are exchanged."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Say what a rank did last: the task's number, how many steps it had come to, which that was, and its innermost Python file."""

    rank: int
    task: int = 0
    step: int = 0
    doing: str = "starting"
    innermost: str | None = None

    @property
    def is_waiting(self) -> bool:
        """Say whether its innermost function is one that waits for others."""
        return self.innermost is not None and _WAITING.search(self.innermost) is not None


class PositionWriter:
    """Write down what this rank does, in a few microseconds and without waking anyone."""

    def __init__(self, folder: str, rank: int, task: int, timeout_s: float) -> None:
        self._fd = os.open(_path(folder, rank), os.O_WRONLY | os.O_CREAT, 0o600)
        self._stack = open(_stack_path(folder, rank), "w+")  # noqa: SIM115  # faulthandler writes to it until the process ends
        self._task = task
        self._step = 0
        self._timeout_s = timeout_s
        self.tell("starting")
        self.alive()

    def tell(self, doing: str) -> None:
        """Come to the next step."""
        self._step += 1
        os.pwrite(self._fd, f"{self._task} {self._step} {doing}".encode()[:_LENGTH_BYTES].ljust(_LENGTH_BYTES), 0)

    def alive(self) -> None:
        """Start the time limit anew, as saying something to the rank's own process does."""
        self._stack.truncate(0)
        faulthandler.dump_traceback_later(_EARLY * self._timeout_s, file=self._stack)


def read_positions(folder: str, size: int, task: int) -> list[Position]:
    """Return where every rank stands in a task; one that has not come to it is at its start."""
    found = []
    for rank in range(size):
        position = Position(rank=rank)
        try:
            number, step, doing = Path(_path(folder, rank)).read_text().strip().split(" ", 2)
            if int(number) == task:
                innermost = _innermost(Path(_stack_path(folder, rank)).read_text())
                position = Position(rank=rank, task=task, step=int(step), doing=doing, innermost=innermost)
        except (FileNotFoundError, ValueError):
            pass
        found.append(position)
    return found


def hanging(positions: Sequence[Position]) -> list[Position]:
    """Return the ranks that the others wait for: those furthest behind, and of several those that do not wait themselves."""
    furthest = min(position.step for position in positions)
    behind = [position for position in positions if position.step == furthest]
    return [position for position in behind if not position.is_waiting] or behind


def _innermost(stacks: str) -> str | None:
    """Return file and function that the main thread was in; faulthandler writes the main thread, the oldest, last."""
    last = stacks.rpartition("Thread ")[2]
    found = re.search(r'File "([^"]+)", line \d+ in (\S+)', last)
    return f"{found[1]} {found[2]}" if found else None


def _path(folder: str, rank: int) -> str:
    return f"{folder}/position-{rank}"


def _stack_path(folder: str, rank: int) -> str:
    return f"{folder}/stacks-{rank}"
