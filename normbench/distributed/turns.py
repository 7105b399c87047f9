"""The task of one rank in a block of turns: every arm trained by all ranks together, and by rank 0 alone, in the same random order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import torch

from ..cases.throughput_case import ThroughputCase
from ..measure.block import BlockTask
from ..measure.plan import Cost, make_schedule
from ..measure.timer import timer_of
from ..models.networks import network
from ..workloads.model import arms_and_control, company_case
from ..workloads.training import TrainingStep, autocast_of
from .session import Seat, Session, guarded, joined, prepare_rank
from .training import parallelise, rank_batches, trained_network

__all__ = ["RankTurns", "TurnsTask", "take_turns"]

_WARM_UP_CALLS = 2
"""Calls of each arm before the first sample. All ranks have to make as many, so that none looks at its own clock to decide."""

_Entry = tuple[str, bool]
"""An arm, and whether all ranks train it together."""


class TurnsTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask one rank for its part of a block of turns."""

    seat: Seat
    block: BlockTask


class RankTurns(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one rank's clock saw, in seconds per step by arm, a value per turn: `together`, and `alone` on rank 0 only."""

    timer: str
    together: dict[str, tuple[float, ...]]
    alone: dict[str, tuple[float, ...]]


def take_turns(task: TurnsTask, emit: Callable[[Any], None]) -> None:
    """Take one block of turns with the other ranks and emit one RankTurns. Raises OutOfMemory, and PeerLost when a rank is gone."""

    def work() -> None:
        device = prepare_rank(task.seat, task.block.conditions, task.block.case)
        with joined(task.seat, device) as session:
            emit(_Turns(task, session, emit).take())

    guarded(work)


class _Turns:
    def __init__(self, task: TurnsTask, session: Session, emit: Callable[[Any], None]) -> None:
        assert isinstance(task.block.case, ThroughputCase), task.block.case
        self._task = task.block
        self._seat = task.seat
        self._session = session
        self._emit = emit
        self._found = network(task.block.case.network)
        self._case = company_case(task.block.case, self._found)
        self._timer = timer_of(session.device, is_single=True)

    def take(self) -> RankTurns:
        # Where tensors lie moves timings by percents: each process draws it afresh.
        own = Random(self._task.seed * self._seat.size + self._seat.rank)
        ballast = torch.empty(own.randrange(1, 2**20), dtype=torch.uint8)
        steps = self._steps()
        costs = {}
        for entry, step in steps.items():
            for _ in range(_WARM_UP_CALLS):
                costs[entry] = self._sample(entry, step)
            # A first call may compile; the next one's limit starts anew.
            self._alive()
        turns = self._session.told(self._turns(costs) if self._session.is_first else None)
        collected: dict[_Entry, list[float]] = {entry: [] for entry in steps}
        # One seed on all ranks: the order is the same everywhere.
        shared = Random(self._task.seed)
        order = list(steps)
        for _ in range(turns):
            shared.shuffle(order)
            for entry in order:
                time_s = self._sample(entry, steps[entry])
                if time_s is not None:
                    collected[entry].append(time_s)
            self._alive()
        self._session.wait()
        del ballast
        return RankTurns(
            timer=self._timer.name,
            together={arm: tuple(times) for (arm, is_together), times in collected.items() if is_together},
            alone={arm: tuple(times) for (arm, is_together), times in collected.items() if times and not is_together},
        )

    def _steps(self) -> dict[_Entry, TrainingStep | None]:
        """Return the step of every arm by all ranks and, on rank 0, alone; what another rank sits out is None."""
        case, found, device, seat = self._case, self._found, self._session.device, self._seat
        batches = rank_batches(case, found, device, seed=self._task.seed, rank=seat.rank, size=seat.size)
        autocast = autocast_of(case.autocast, device)
        steps: dict[_Entry, TrainingStep | None] = {}
        for arm in arms_and_control(case.model_case, self._task.providers, device):
            self._session.position.tell(f"making the network of {arm}")
            model = parallelise(trained_network(case, found, arm, batches[0], device), seat.parallel)
            steps[arm, True] = TrainingStep(found, model, batches, autocast=autocast)
            steps[arm, False] = None
            if self._session.is_first:
                alone = trained_network(case, found, arm, batches[0], device)
                steps[arm, False] = TrainingStep(found, alone, batches, autocast=autocast)
            self._alive()
        return steps

    def _sample(self, entry: _Entry, step: TrainingStep | None) -> float | None:
        arm, is_together = entry
        self._session.wait()
        self._session.position.tell(f"training {arm} {'with the others' if is_together else 'by rank 0 alone'}")
        return None if step is None else self._timer.sample(step, 1).time_s

    def _turns(self, costs: dict[_Entry, float | None]) -> int:
        seen = {f"{arm} {is_together}": Cost(call_s=time_s) for (arm, is_together), time_s in costs.items() if time_s is not None}
        # To join the others costs a process more than a few turns: rather few blocks of more turns than many of few.
        plan = msgspec.structs.replace(self._task.plan, max_repetitions=1, max_blocks=self._task.plan.min_blocks)
        return make_schedule(plan, seen, single=frozenset(seen)).turns

    def _alive(self) -> None:
        self._emit(None)
        self._session.position.alive()
