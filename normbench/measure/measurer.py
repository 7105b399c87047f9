"""All arms of a group, checked and measured side by side, in processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ..cases.case import Case, Tier
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..cases.traffic import predicted_peak_bytes
from ..errors import NormbenchError
from ..host.machine import available_memory_bytes
from ..kernels.interpret import fewer_rows
from ..records.measurement import Sustained
from ..records.record import Record, Status
from .block import BlockResult, BlockTask
from .checking import CheckTask, drained
from .group import Drafts, Group
from .plan import Plan, stop_reason
from .process import status_of
from .rotating import Live, Rotating
from .servers import Servers
from .sustain import SustainTask

__all__ = ["Measurer", "OnBlock", "OnDone", "OnStart", "ignore"]

_CHECKS = {
    Tier.OP: f"{__package__}.checking:check",
    Tier.MODEL: f"{__package__}.network_checking:check_networks",
    Tier.THROUGHPUT: f"{__package__}.network_checking:check_networks",
}
_PREPARE = f"{__package__}.ahead:prepare_calls"
_LOAD = f"{__package__}.ahead:load_networks"
_NORM_CALLS = f"{__package__}.network_checking:emit_norm_calls"
_BLOCK = f"{__package__}.block:block"
_SUSTAIN = f"{__package__}.sustain:sustain"
_DEVICE = f"{__package__}.device:describe_device"


OnStart = Callable[[Group], None]
OnBlock = Callable[[Live], None]
OnDone = Callable[[Group, list[Record]], None]


def ignore(_: object) -> None:
    """Tell nobody."""


class Measurer:
    """Check and measure groups in worker processes. Close it, or use it as a context manager.

    Raises UsageError at once when a provider cannot be loaded or the device is not there.
    """

    def __init__(self, providers: Sequence[str], *, device: str, plan: Plan, log: Path) -> None:
        plan.validate()
        self._plan = plan
        self._device_name = device
        self._loaded: set[str] = set()
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

    def load_networks(self, cases: Iterable[ModelCase | ThroughputCase]) -> None:
        """Import what networks are made of, once, before they are measured. Raises UsageError for a network that cannot be built."""
        if new := tuple(case for case in dict.fromkeys(cases) if case.label not in self._loaded):
            self._servers.prepare(_LOAD, new)
            self._loaded |= {case.label for case in new}

    def norms_of(self, cases: Sequence[ModelCase]) -> dict[ModelCase, dict[Case, int]]:
        """Return the norm calls of one pass of each network as cases of the op tier, each with how often it comes.

        Raises UsageError for a network that cannot be built or whose norms cannot be found.
        """
        self.load_networks(cases)
        return dict(self._servers.run(_NORM_CALLS, (tuple(cases), self._device_name)))

    def measure(self, group: Group) -> list[Record]:
        """Return the records of a single group; see `measure_all`."""
        records: list[Record] = []
        self.measure_all([group], on_done=lambda _, done: records.extend(done))
        return records

    def measure_all(self, groups: Sequence[Group], *, on_done: OnDone, on_start: OnStart = ignore, on_block: OnBlock = ignore) -> None:
        """Measure groups in rotation, a block of each in turn, and hand over each group's records as soon as it is decided.

        A machine's speed wanders over minutes. The blocks of a case that are spread over all the time its rotation takes see more
        of that than blocks in a row, and so does its interval. There is one record per arm, and one per control when something was
        timed. A KeyboardInterrupt passes through; the blocks of undecided groups are lost.
        """
        self.load_networks(arm.case for group in groups for arm in group.arms if isinstance(arm.case, ThroughputCase))
        rotation: list[Rotating] = []
        for group in groups:
            on_start(group)
            drafts = Drafts(group, self._plan.seed)
            timed = self._admit(group, drafts)
            if timed:
                rotation.append(Rotating(group, drafts, timed))
            else:
                on_done(group, drafts.records())
        while rotation:
            for one in list(rotation):
                if self._take_block(one, on_block):
                    rotation.remove(one)
                    self._sustain(one)
                    on_done(one.group, one.drafts.records())

    def _admit(self, group: Group, drafts: Drafts) -> tuple[str, ...]:
        """Check a group and return the arms that may be timed; the others are settled."""
        if self._predict_memory(group, drafts):
            return ()
        self._check(group, drafts)
        passed = tuple(name for name in group.names if drafts.checks[name].status is Status.OK)
        if group.case.is_empty:
            drafts.settle(passed, Status.SKIPPED, "empty: there is nothing to time; outputs were checked")
            return ()
        # A block of a small share of the budget is shorter than the 0.4 s that finding a compiled function on disk takes.
        if passed and (group.case.tier is not Tier.OP or group.share < 1.0):
            self._prepare(group, passed)
        return passed

    def _prepare(self, group: Group, names: tuple[str, ...]) -> None:
        """Compile in the server what every block would compile again; where that fails, they do."""
        if group.conditions.device == "cpu":
            with suppress(NormbenchError):
                task = CheckTask(case=group.case, conditions=group.conditions, providers=names, seed=self._plan.seed)
                self._servers.prepare(_PREPARE, task)

    def _predict_memory(self, group: Group, drafts: Drafts) -> bool:
        """Settle the whole group as out of memory when it cannot fit; say whether it was."""
        if not isinstance(group.case, Case):
            # A network is not known before it is built: one that does not fit is told when it is checked.
            return False
        needed = predicted_peak_bytes(group.case, len(group.arms))
        available = int(self.device["free_bytes"]) if "free_bytes" in self.device else available_memory_bytes()
        if needed <= available:
            return False
        reason = f"predicted to need {needed / 2**30:.1f} GiB, and {available / 2**30:.1f} GiB are available; not attempted"
        drafts.settle(group.names, Status.OOM, reason)
        return True

    def _check(self, group: Group, drafts: Drafts) -> None:
        waiting = list(group.names)
        while waiting:
            task = CheckTask(case=group.case, conditions=group.conditions, providers=tuple(waiting), seed=self._plan.seed)
            results, at_work, error = drained(self._servers.run(_CHECKS[group.case.tier], task))
            drafts.checks |= {result.provider: result for result in results}
            if error is not None:
                at_fault = [at_work] if at_work is not None else [name for name in waiting if name not in drafts.checks]
                drafts.settle(at_fault, status_of(error), f"while it was checked: {error}")
            waiting = [name for name in waiting if name not in drafts.checks]
        interpreted = [name for name in group.names if drafts.checks[name].status is Status.SKIPPED]
        if interpreted and isinstance(group.case, Case):
            self._check_in_interpreter(group, group.case, tuple(interpreted), drafts)

    def _check_in_interpreter(self, group: Group, case: Case, names: tuple[str, ...], drafts: Drafts) -> None:
        """Check Triton kernels without a GPU, on a few rows, in a process of their own: Triton decides at import."""
        small = fewer_rows(case)
        task = CheckTask(case=small, conditions=group.conditions, providers=names, seed=self._plan.seed)
        results, _, error = drained(self._servers.run(_CHECKS[Tier.OP], task, interpreter=True))
        for result in results:
            if result.status is Status.OK:
                reason = f"no GPU: checked in Triton's interpreter on {small.rows} of {case.rows} rows, not timed"
                result = msgspec.structs.replace(result, status=Status.SKIPPED, reason=reason, first_call_s=None)
            drafts.checks[result.provider] = result
        if error is not None:
            drafts.settle(names, status_of(error), f"while it was checked in Triton's interpreter: {error}")

    def _take_block(self, one: Rotating, on_block: OnBlock) -> bool:
        """Take another block of a group and say whether that was its last.

        A group in which something fails when called often starts again without it.
        """
        start = time.monotonic()
        try:
            (result,) = self._servers.run(_BLOCK, self._block_task(one, one.timed))
        except NormbenchError as error:
            at_fault = self._failing_alone(one, error)
            for name, failure in at_fault.items():
                one.drafts.settle([name], status_of(failure), f"while it was measured: {failure}")
            one.restart(tuple(name for name in one.timed if name not in at_fault))
            return not one.timed
        return self._add_block(one, result, time.monotonic() - start, on_block)

    def _add_block(self, one: Rotating, result: BlockResult, seconds: float, on_block: OnBlock) -> bool:
        """Keep a block that took so long and say whether it was the group's last."""
        one.add(result, seconds)
        plan = self._plan_of(one.group)
        on_block(one.live(plan))
        stop = stop_reason(plan, one.log_medians(), one.spent_s)
        if stop is not None:
            one.finish(stop)
        return stop is not None

    def _sustain(self, one: Rotating) -> None:
        """Run each arm that was timed by itself for a while: what a rate costs cannot be told apart where arms take turns."""
        group = one.group
        if group.case.tier is not Tier.THROUGHPUT or self._plan.sustain_s == 0:
            return
        for name in one.timed:
            task = SustainTask(case=group.case, conditions=group.conditions, arm=name, seconds=self._plan.sustain_s, seed=self._plan.seed)
            try:
                (one.drafts.sustained[name],) = self._servers.run(_SUSTAIN, task)
            except NormbenchError as error:
                one.drafts.sustained[name] = Sustained(duration_s=0.0, calls=0, reasons={"calls": str(error)})

    def _failing_alone(self, one: Rotating, error: NormbenchError) -> dict[str, NormbenchError]:
        """Return who is at fault for a block that failed, by trying each alone; all of them when none fails alone."""
        failed: dict[str, NormbenchError] = {}
        for name in one.timed if len(one.timed) > 1 else ():
            try:
                list(self._servers.run(_BLOCK, self._block_task(one, (name,))))
            except NormbenchError as failure:
                failed[name] = failure
        return failed or dict.fromkeys(one.timed, error)

    def _plan_of(self, group: Group) -> Plan:
        return self._plan if group.share == 1.0 else msgspec.structs.replace(self._plan, budget_s=self._plan.budget_s * group.share)

    def _block_task(self, one: Rotating, arms: tuple[str, ...]) -> BlockTask:
        # Every block draws its own order of turns and layout; inputs differ too.
        seed = self._plan.seed + 1000 * (one.count + 1)
        return BlockTask(
            case=one.group.case,
            conditions=one.group.conditions,
            providers=arms,
            plan=self._plan_of(one.group),
            seed=seed,
            peak_bytes=one.drafts.peak_bytes(arms),
        )
