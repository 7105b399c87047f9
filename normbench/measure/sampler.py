"""Turns: the arms of one case sampled side by side, in random order, on tensors that are new in every repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any

from ..errors import NormbenchError
from .plan import Cost, Schedule
from .timer import Sample, Timer

__all__ = ["LONG_CALL_S", "Call", "Samples", "first_calls", "first_costs", "in_turn", "process_page_faults", "take_repetition", "warm_up"]

LONG_CALL_S = 0.02
"""Where the quickest arm takes so long, in seconds, a first call is warm-up enough for those near it."""
NEAR = 8
"""How many times as long as the quickest arm a first call may take and still be near: one that compiled took longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Hold the timed work of one arm and what must happen before each sample, outside the clock."""

    run: Callable[[], Any]
    before: Callable[[], Any] | None = None

    def prepare(self) -> None:
        if self.before is not None:
            self.before()


def in_turn(*steps: Callable[[], Any] | None) -> Callable[[], Any] | None:
    """Return what runs these steps one after the other, those that are None left out; None where none is left."""
    wanted = [step for step in steps if step is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None

    def run() -> None:
        for step in wanted:
            step()

    return run


@dataclass(slots=True)
class Samples:
    """Collect one arm's samples of one repetition."""

    time_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)
    page_faults: int = 0

    def add(self, sample: Sample) -> None:
        """Keep a sample. Raises NormbenchError for one of 0 s, which has no ratio to any other."""
        if not sample.time_s > 0:
            raise NormbenchError(f"a sample took {sample.time_s} s: the call is shorter than the clock can see")
        self.time_s.append(sample.time_s)
        if sample.host_s is not None:
            self.host_s.append(sample.host_s)


def first_calls(calls: Mapping[str, Call], timer: Timer, *, clock: Callable[[], float] = perf_counter) -> dict[str, Cost]:
    """Make the first call of every arm and return what each cost, compilation included: hardly less than any later one will."""
    return {arm: _single_call(call, timer, clock) for arm, call in calls.items()}


def _single_call(call: Call, timer: Timer, clock: Callable[[], float]) -> Cost:
    start = clock()
    call.prepare()
    before_s = clock() - start
    sample = timer.sample(call.run, 1)
    return Cost(call_s=sample.time_s, launch_s=sample.host_s or 0.0, before_s=before_s)


def first_costs(calls: Mapping[str, Call], timer: Timer, *, clock: Callable[[], float] = perf_counter) -> tuple[dict[str, Cost], float]:
    """Make the first calls of a process and warm up; return what each arm's next call costs and what a repetition's warm-up takes, in s.

    A first call compiles, loads libraries and meets pages that were never touched: it is no measure of what follows. Where the quickest
    arm takes `LONG_CALL_S` again, though, it is warm-up enough for all that took no more than `NEAR` times as long: another one of each
    would cost as much as a sample.
    """
    first = first_calls(calls, timer, clock=clock)
    quickest = min(first, key=lambda arm: first[arm].call_s)
    start = clock()
    costs = first | warm_up({quickest: calls[quickest]}, timer, clock=clock)
    quickest_s = costs[quickest].call_s
    is_long = quickest_s >= LONG_CALL_S
    seen = {arm for arm, cost in first.items() if arm == quickest or (is_long and cost.call_s <= NEAR * quickest_s)}
    costs |= warm_up({arm: call for arm, call in calls.items() if arm not in seen}, timer, clock=clock)
    return costs, clock() - start + sum(costs[arm].before_s + costs[arm].call_s for arm in seen if arm != quickest)


def warm_up(
    calls: Mapping[str, Call],
    timer: Timer,
    *,
    settle_s: float = 0.03,
    close: float = 0.05,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Cost]:
    """Run every arm one call at a time until two in a row differ by less than `close`, or `settle_s` seconds of calls are spent.

    Returns what each arm's last call cost. At least two calls are made, unless the first alone takes longer than `settle_s`: the first
    call of a repetition meets pages that were never touched and is not like the others. `clock` times what comes before a call.
    """
    costs = {}
    for arm, call in calls.items():
        previous, spent_s = float("inf"), 0.0
        while True:
            costs[arm] = _single_call(call, timer, clock)
            current = costs[arm].call_s
            # A call that the clock cannot see must come to an end too.
            spent_s += max(current, 1e-6)
            if abs(current - previous) <= close * current or spent_s >= settle_s:
                break
            previous = current
    return costs


def take_repetition(
    calls: Mapping[str, Call], timer: Timer, schedule: Schedule, rng: Random, count_faults: Callable[[], int]
) -> dict[str, Samples]:
    """Return every arm's samples of one repetition: `schedule.turns` turns, each with all arms once in random order.

    `count_faults` is read before and after each sample, outside the clock.
    """
    samples = {arm: Samples() for arm in calls}
    order = list(calls)
    for _ in range(schedule.turns):
        rng.shuffle(order)
        for arm in order:
            call = calls[arm]
            call.prepare()
            faults = count_faults()
            sample = timer.sample(call.run, schedule.inner[arm])
            samples[arm].page_faults += count_faults() - faults
            samples[arm].add(sample)
    return samples


def process_page_faults() -> int:
    """Return how many minor page faults this process has had."""
    return getrusage(RUSAGE_SELF).ru_minflt
