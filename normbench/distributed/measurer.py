"""All arms of a group, checked and measured by several ranks: what `Measurer` does for one process, with rank 0 keeping the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..cases.metric import tokens_metric
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..errors import UsageError
from ..host.threads import available_cores
from ..measure.ahead import load_networks, prepare_calls
from ..measure.block import BlockResult
from ..measure.checking import CheckTask
from ..measure.group import Drafts, Group
from ..measure.measurer import Measurer, OnBlock, OnDone, OnStart, ignore
from ..measure.plan import Plan
from ..measure.process import OutOfMemory
from ..measure.rotating import Rotating
from ..records.measurement import Block, Measurement, Ranks
from ..records.record import Accuracy, Record, Role, Status
from .agreement import Agreement, AgreementTask, agree
from .failure import RankFailed
from .gathering import Gathering, SetUp
from .session import count_gpus
from .team import Team
from .turns import RankTurns, TurnsTask, take_turns

__all__ = ["TeamMeasurer", "team_measurer", "verdict_on"]


def team_measurer(gathering: Gathering | None, processes: int) -> Callable[..., Measurer]:
    """Return what opens a measurer for so many processes, as `Measurer` does for one.

    Raises UsageError unless torchrun has started as many, `gathering` being the connection to them.
    """
    started = 1 if gathering is None else gathering.place.size
    if started != processes:
        raise UsageError(
            f"nproc {processes} is asked for, and {started} {'process was' if started == 1 else 'processes were'} started: "
            f"say `normbench run --nproc {processes}`, or `torchrun --nproc-per-node {processes} -m normbench.throughput` without nproc"
        )
    return Measurer if gathering is None or processes == 1 else partial(TeamMeasurer, gathering)


def _name(function: Any) -> str:
    return f"{function.__module__}:{function.__name__}"


class TeamMeasurer(Measurer):
    """Check and measure groups on all ranks that torchrun started; this is rank 0. See `Measurer`."""

    def __init__(self, gathering: Gathering, providers: Sequence[str], *, device: str, plan: Plan, log: Path) -> None:
        super().__init__(providers, device=device, plan=plan, log=log)
        try:
            if device == "cuda":
                self._refuse_few_gpus(gathering.place.size)
            setup = SetUp(providers=tuple(providers), device=device, log=str(log), timeout_s=plan.timeout_s)
            self._team = Team(gathering, self._servers, setup)
        except BaseException:
            self.close()
            raise
        self._kept: dict[str, list[tuple[list[Block], Block]]] = {}
        self._drafts: Drafts | None = None

    def _refuse_few_gpus(self, size: int) -> None:
        (count,) = self.run_task(_name(count_gpus), None)
        if count < size:
            raise UsageError(f"{size} processes need a GPU each, and {count} are visible: start at most {count}, or name device cpu")

    def load_networks(self, cases: Iterable[ModelCase | ThroughputCase]) -> None:
        new = tuple(case for case in dict.fromkeys(cases) if case.label not in self._loaded)
        super().load_networks(new)
        if new:
            self._team.prepare(_name(load_networks), new)

    def measure_all(self, groups: Sequence[Group], *, on_done: OnDone, on_start: OnStart = ignore, on_block: OnBlock = ignore) -> None:
        """Measure groups one after the other and hand over each group's records as soon as it is decided.

        Not in rotation: a rank that fails ends the run, and what was finished before is to be kept. Raises RankFailed after the
        records of the group in hand.
        """
        for group in groups:
            self._kept = {}
            try:
                super().measure_all(
                    [group],
                    on_done=lambda one, records: on_done(one, [self._of_ranks(record) for record in records]),
                    on_start=on_start,
                    on_block=on_block,
                )
            except RankFailed as failure:
                on_done(group, self._failed(group, failure))
                raise

    def _failed(self, group: Group, failure: RankFailed) -> list[Record]:
        drafts = self._drafts or Drafts(group, self._plan.seed)
        open_ = [name for name in group.names if name not in drafts.checks or drafts.checks[name].status is Status.OK]
        # Interrupted: whoever goes on with the run tries it again. Too little memory is there the next time too.
        drafts.settle(open_, Status.OOM if isinstance(failure.cause, OutOfMemory) else Status.INTERRUPTED, failure.reason)
        return drafts.records()

    def _admit(self, group: Group, drafts: Drafts) -> tuple[str, ...]:
        self._drafts = drafts
        passed = super()._admit(group, drafts)
        if not passed:
            return ()
        task = CheckTask(case=group.case, conditions=group.conditions, providers=passed, seed=self._plan.seed)
        if group.conditions.device == "cpu":
            # After rank 0, so that what it compiled is found on disk.
            self._team.prepare(_name(prepare_calls), task)
        answers = self._team.run(_name(agree), lambda seat: AgreementTask(seat=seat, check=task), parallel=group.conditions.parallel)
        for of_arm in zip(*answers, strict=True):
            self._judge(drafts, of_arm)
        return tuple(name for name in passed if drafts.checks[name].status is Status.OK)

    def _judge(self, drafts: Drafts, agreements: Sequence[Agreement]) -> None:
        name = agreements[0].arm
        known = drafts.checks[name]
        drafts.checks[name] = msgspec.structs.replace(known, accuracy=(*(known.accuracy or ()), *agreements[0].accuracy))
        if reason := verdict_on(agreements):
            drafts.settle([name], Status.WRONG, reason)

    def _take_block(self, one: Rotating, on_block: OnBlock) -> bool:
        start = time.monotonic()
        task = self._block_task(one, one.timed)
        answers = self._team.run(_name(take_turns), lambda seat: TurnsTask(seat=seat, block=task), parallel=one.group.conditions.parallel)
        return self._add_block(one, self._keep([turns for (turns,) in answers]), time.monotonic() - start, on_block)

    def _sustain(self, one: Rotating) -> None:
        """Leave out what one process does by itself: it says nothing of several."""

    def _keep(self, ranks: Sequence[RankTurns]) -> BlockResult:
        """Keep every rank's samples and return those of the slowest: a step is done when all ranks are."""
        now = time.time()
        slowest = {}
        for arm in ranks[0].together:
            each = [turns.together[arm] for turns in ranks]
            slowest[arm] = _as_block(tuple(map(max, zip(*each, strict=True))), now)
            self._kept.setdefault(arm, []).append(([_as_block(times, now) for times in each], _as_block(ranks[0].alone[arm], now)))
        return BlockResult(timer=ranks[0].timer, blocks=slowest)

    def _of_ranks(self, record: Record) -> Record:
        """Return a record with what it has of all ranks: tokens of all of them, and every rank's samples."""
        assert isinstance(record.case, ThroughputCase), record.case
        metric = tokens_metric(record.case.tokens * self._team.size)
        known = record.measurement
        if known is None:
            return msgspec.structs.replace(record, metric=metric)
        kept = self._kept[record.case.arm(record.provider) if record.role is Role.PROVIDER else record.provider]
        each = tuple(
            Measurement(timer=known.timer, blocks=tuple(blocks[rank] for blocks, _ in kept), stop=known.stop)
            for rank in range(self._team.size)
        )
        alone = Measurement(timer=known.timer, blocks=tuple(block for _, block in kept), stop=known.stop)
        return msgspec.structs.replace(record, metric=metric, ranks=Ranks(each=each, alone=alone, cores=available_cores()))


def verdict_on(agreements: Sequence[Agreement]) -> str | None:
    """Return what is wrong with a step of one arm, of which every rank has told, or None."""
    different = [rank for rank, one in enumerate(agreements) if one.digest != agreements[0].digest]
    if different:
        return f"after one step the parameters of rank {', '.join(map(str, different))} are not those of rank 0"
    wrong: list[Accuracy] = [one for one in agreements[0].accuracy if not one.passed]
    said = [one.fault or f"off by {one.error if one.error is not None else float('inf'):.3g}, over {one.tolerance:.3g}" for one in wrong]
    return "; ".join(f"{one.tensor} {text}" for one, text in zip(wrong, said, strict=True)) or None


def _as_block(times: tuple[float, ...], now: float) -> Block:
    return Block(started_at=now, inner=1, samples_s=(times,))
