"""What went wrong where several ranks failed at once: one of them is the cause, and the others only lost it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import NormbenchError
from ..measure.worker import TaskDied, TaskTimeout
from .position import Position, hanging

__all__ = ["PeerLost", "RankFailed", "RankGone", "explain", "tail_of"]

_TAIL_LINES = 15


class RankFailed(NormbenchError):
    """Report that a rank failed, which ends a run: `reason` says so in one line, the text shows the rank's log too."""

    def __init__(self, text: str, *, reason: str, cause: NormbenchError) -> None:
        super().__init__(text)
        self.reason = reason
        self.cause = cause


class PeerLost(NormbenchError):
    """Report that a computing process lost another one: the cause is with that one."""


class RankGone(NormbenchError):
    """Report that a process that torchrun started ended."""


_CAUSES = (RankGone, TaskDied, NormbenchError, TaskTimeout, PeerLost)
"""From cause to consequence: who lost a rank, or waited for one, tells nothing about it. The general kind stands for what was raised."""


def explain(failures: Mapping[int, NormbenchError], positions: Sequence[Position], logs: Mapping[int, tuple[Path, int]]) -> RankFailed:
    """Return what ended a run: the failure that explains the others, where that rank was, and the last lines of its log.

    `failures` holds what is known of ranks that failed, `positions` where every rank was, `logs` each rank's log and how long it was
    when the run began.
    """
    size = len(positions)
    rank = min(failures, key=lambda one: (_CAUSES.index(_kind(failures[one])), one))
    error = failures[rank]
    ranks = [rank]
    if isinstance(error, TaskTimeout):
        stuck = hanging(positions)
        ranks = [position.rank for position in stuck]
        how = f"did not go on: {error}"
    else:
        how = str(error)
    doing = positions[ranks[0]].doing
    named = f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))
    reason = f"{named} of {size} ({doing}): {how}"
    shown = "\n".join(f"last lines of the log of rank {one}, {logs[one][0]}:\n{tail_of(*logs[one])}" for one in ranks)
    return RankFailed(f"{reason}\n{shown}", reason=reason, cause=error)


def _kind(error: NormbenchError) -> type[NormbenchError]:
    return next((kind for kind in (RankGone, TaskDied, TaskTimeout, PeerLost) if isinstance(error, kind)), NormbenchError)


def tail_of(log: Path, start: int) -> str:
    """Return the last lines that were added to a log after its first `start` bytes, indented."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"  (cannot be read: {error.strerror})"
    return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:]) or "  (empty)"
