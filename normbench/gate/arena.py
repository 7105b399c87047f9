"""Where both arms of a gate meet to be checked, prepared and measured: one process, or two of different interpreters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ..measure.checking import CheckResult, CheckTask, drained
from ..measure.plan import Schedule
from ..measure.worker import Worker
from ..records.record import Status
from .outcome import Code
from .process import Candidate, Setup
from .standing import BlockSamples

__all__ = ["TIMEOUT_S", "Arena", "ArenaMaker", "checked"]

_CHECK = f"{__package__.rpartition('.')[0]}.measure.checking:check"

TIMEOUT_S = 120.0
"""How long a process may say nothing before it is ended."""


class Arena(Protocol):
    """Run what a gate asks for, each check and each block in processes of its own. To be closed, whatever the end is.

    `notes` tell people what is peculiar to it. `is_ready` is False before the first `prepare`, and after a process had to be ended.
    """

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def is_ready(self) -> bool: ...

    def check(self, candidate: Candidate) -> tuple[CheckResult, CheckResult]:
        """Check base and head against float64. Raises UsageError for a provider that neither has; whatever else fails is a result."""

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Replace the processes by ones that have these candidates prepared."""

    def renew(self, candidates: Sequence[Candidate]) -> None:
        """Begin a round of blocks of prepared candidates: replace what processes would make its blocks depend on the last round's."""

    def code(self, candidate: Candidate) -> Code:
        """Return how the code of the arms of a prepared candidate differs."""

    def block(self, candidate: Candidate, schedule: Schedule, *, seed: int, peak_bytes: int) -> BlockSamples:
        """Take a block of turns of a prepared candidate. Raises NormbenchError when a process died or said nothing for too long."""

    def close(self) -> None:
        """End all processes."""


ArenaMaker = Callable[[Setup, Path], Arena]
"""Makes an arena from what its processes load and the file that receives what they print."""


def checked(worker: Worker, task: CheckTask) -> dict[str, CheckResult]:
    """Return how the check of each provider of a task ended in a worker's fork; one that takes the process down has a result too."""
    found, at_work, error = drained(worker.run(_CHECK, task, timeout_s=TIMEOUT_S))
    results = {result.provider: result for result in found}
    if error is not None:
        for arm in task.providers:
            if arm not in results:
                reason = str(error) if at_work in (arm, None) else f"not reached: {error}"
                results[arm] = CheckResult(provider=arm, status=Status.ERROR, reason=reason)
    return results
