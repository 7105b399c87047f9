"""All providers of one case, checked and measured side by side, in processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..case import Case
from ..errors import NormbenchError
from ..kernels.interpret import fewer_rows
from ..record import Block, Measurement, Record, Status, StopReason
from ..stats import block_log_medians, time_interval
from ..traffic import predicted_peak_bytes
from .block import BlockResult, BlockTask
from .checking import CheckResult, CheckTask
from .group import Drafts, Group
from .machine import available_memory_bytes
from .plan import Plan, stop_reason
from .process import OutOfMemory
from .servers import Servers
from .worker import TaskDied

__all__ = ["Live", "Measurer"]

_CHECK = f"{__package__}.checking:check"
_BLOCK = f"{__package__}.block:block"
_DEVICE = f"{__package__}.device:describe_device"


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how a case stands after another block: how many blocks, the time of one call so far by provider, in seconds."""

    case: Case
    blocks: int
    spent_s: float
    time_s: dict[str, float]


class Measurer:
    """Check and measure groups in worker processes. Close it, or use it as a context manager.

    Raises UsageError at once when a provider cannot be loaded or the device is not there.
    """

    def __init__(self, providers: Sequence[str], *, device: str, plan: Plan, log: Path) -> None:
        plan.validate()
        self._plan = plan
        self._servers = Servers(providers, device=device, log=log, timeout_s=plan.timeout_s)
        try:
            self.device: Mapping[str, Any] = next(iter(self._servers.run(_DEVICE, device)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the measuring processes."""
        self._servers.close()

    def run_task(self, task: str, argument: Any) -> list[Any]:
        """Run any `module:function` in a fresh fork of the server and return what it emitted."""
        return list(self._servers.run(task, argument))

    def measure(self, group: Group, on_block: Callable[[Live], None] = lambda live: None) -> list[Record]:
        """Return one record per provider, and one per control when something was timed.

        A KeyboardInterrupt passes through with the blocks measured so far lost; the caller records what was interrupted.
        """
        drafts = Drafts(group, self._plan.seed)
        if not self._predict_memory(group, drafts):
            self._check(group, drafts)
            timed = tuple(name for name in group.providers if drafts.checks[name].status is Status.OK)
            if group.case.is_empty:
                drafts.settle(timed, Status.SKIPPED, "empty: there is nothing to time; outputs were checked")
            else:
                self._take_blocks(group, timed, drafts, on_block)
        return drafts.records()

    def _predict_memory(self, group: Group, drafts: Drafts) -> bool:
        """Settle the whole group as out of memory when it cannot fit; say whether it was."""
        needed = predicted_peak_bytes(group.case, len(group.providers))
        available = int(self.device["free_bytes"]) if "free_bytes" in self.device else available_memory_bytes()
        if needed <= available:
            return False
        reason = f"predicted to need {needed / 2**30:.1f} GiB, and {available / 2**30:.1f} GiB are available; not attempted"
        drafts.settle(group.providers, Status.OOM, reason)
        return True

    def _check(self, group: Group, drafts: Drafts) -> None:
        waiting = list(group.providers)
        while waiting:
            current: str | None = None
            task = CheckTask(case=group.case, conditions=group.conditions, providers=tuple(waiting), seed=self._plan.seed)
            try:
                for message in self._servers.run(_CHECK, task):
                    if isinstance(message, CheckResult):
                        drafts.checks[message.provider] = message
                    else:
                        _, current = message
            except NormbenchError as error:
                # The one that was running is at fault; without knowing it, all are.
                at_fault = [current] if current is not None else [name for name in waiting if name not in drafts.checks]
                drafts.settle(at_fault, _status_of(error), f"while it was checked: {error}")
            waiting = [name for name in waiting if name not in drafts.checks]
        interpreted = [name for name in group.providers if drafts.checks[name].status is Status.SKIPPED]
        if interpreted:
            self._check_in_interpreter(group, tuple(interpreted), drafts)

    def _check_in_interpreter(self, group: Group, names: tuple[str, ...], drafts: Drafts) -> None:
        """Check Triton kernels without a GPU, on a few rows, in a process of their own: Triton decides at import."""
        case = group.case
        small = fewer_rows(case)
        task = CheckTask(case=small, conditions=group.conditions, providers=names, seed=self._plan.seed)
        try:
            for message in self._servers.run(_CHECK, task, interpreter=True):
                if not isinstance(message, CheckResult):
                    continue
                if message.status is Status.OK:
                    reason = f"no GPU: checked in Triton's interpreter on {small.rows} of {case.rows} rows, not timed"
                    message = msgspec.structs.replace(message, status=Status.SKIPPED, reason=reason, first_call_s=None)
                drafts.checks[message.provider] = message
        except NormbenchError as error:
            drafts.settle(names, _status_of(error), f"while it was checked in Triton's interpreter: {error}")

    def _take_blocks(self, group: Group, timed: tuple[str, ...], drafts: Drafts, on_block: Callable[[Live], None]) -> None:
        """Measure those that were checked; start again without those that turn out to fail when called often."""
        while timed:
            try:
                self._take_all_blocks(group, timed, drafts, on_block)
                return
            except NormbenchError as error:
                at_fault = self._failing_alone(group, timed, error)
            for name, failure in at_fault.items():
                drafts.settle([name], _status_of(failure), f"while it was measured: {failure}")
            timed = tuple(name for name in timed if name not in at_fault)

    def _failing_alone(self, group: Group, timed: tuple[str, ...], error: NormbenchError) -> dict[str, NormbenchError]:
        """Return who is at fault for a block that failed, by trying each alone; all of them when none fails alone."""
        failed: dict[str, NormbenchError] = {}
        for name in timed if len(timed) > 1 else ():
            try:
                list(self._servers.run(_BLOCK, self._block_task(group, (name,), 0)))
            except NormbenchError as failure:
                failed[name] = failure
        return failed or dict.fromkeys(timed, error)

    def _block_task(self, group: Group, timed: tuple[str, ...], number: int) -> BlockTask:
        # Every block draws its own order of turns and layout; inputs differ too.
        seed = self._plan.seed + 1000 * (number + 1)
        return BlockTask(case=group.case, conditions=group.conditions, providers=timed, plan=self._plan, seed=seed)

    def _take_all_blocks(self, group: Group, timed: tuple[str, ...], drafts: Drafts, on_block: Callable[[Live], None]) -> None:
        blocks: dict[str, list[Block]] = {}
        timer, stop, spent_s, count = "", None, 0.0, 0
        while stop is None:
            start = time.monotonic()
            (result,) = self._servers.run(_BLOCK, self._block_task(group, timed, count))
            assert isinstance(result, BlockResult)
            spent_s += time.monotonic() - start
            count += 1
            timer = result.timer
            if result.device_state is not None:
                drafts.device_states.append(result.device_state)
            for arm, block in result.blocks.items():
                blocks.setdefault(arm, []).append(block)
            so_far = {arm: Measurement(timer=timer, blocks=tuple(taken), stop=StopReason.BLOCKS) for arm, taken in blocks.items()}
            stop = stop_reason(self._plan, {name: block_log_medians(so_far[name]) for name in timed}, spent_s)
            times = {name: time_interval(so_far[name]).estimate for name in timed}
            on_block(Live(case=group.case, blocks=count, spent_s=spent_s, time_s=times))
        for arm, taken in blocks.items():
            drafts.measurements[arm] = Measurement(timer=timer, blocks=tuple(taken), stop=stop)


def _status_of(error: NormbenchError) -> Status:
    """Return the status of a provider whose process failed; the kernel's out-of-memory killer leaves signal 9."""
    import signal

    if isinstance(error, OutOfMemory) or (isinstance(error, TaskDied) and error.signal_number == signal.SIGKILL):
        return Status.OOM
    return Status.ERROR
