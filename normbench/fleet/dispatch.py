"""Who measures what when, until every group has its records: the seam to a cluster, and the loop that feeds it. Knows no clock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from ..errors import NormbenchError
from ..measure.group import Group
from ..records.record import Record

__all__ = ["ATTEMPTS", "Broken", "Cluster", "Event", "Measured", "dispatch", "next_task"]

ATTEMPTS = 3
"""Nodes that a task may be lost with before it is given up: it may be what takes them down."""

POLL_S = 1.0
"""How long the loop waits for an event before it looks for nodes that came."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Say that a seat has finished its task: groups with their records."""

    seat: str
    results: list[tuple[Group, list[Record]]]


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """Say that a seat will not finish its task, and why; `is_lost` when its node is gone, which is no fault of the task."""

    seat: str
    reason: str
    is_lost: bool


Event = Measured | Broken


class Cluster(Protocol):
    """Measure groups on seats: devices or sets of cores that nothing else is placed on meanwhile."""

    def free_seats(self) -> Sequence[str]:
        """Return the seats that can take a task now."""

    def is_hopeful(self) -> bool:
        """Say whether a seat may become free that is not, without a task being finished: a node is still being asked."""

    def start(self, seat: str, groups: Sequence[Group]) -> None:
        """Have a free seat measure groups."""

    def wait(self, timeout_s: float) -> Iterable[Event]:
        """Return what happened, at the latest after so many seconds; each task that was started ends as exactly one event."""


OnStart = Callable[[str, Sequence[Group]], None]
OnDone = Callable[[Group, Sequence[Record]], None]
OnFailed = Callable[[str, Group, str], None]


def next_task(waiting: Sequence[Sequence[Group]], seats: int, most: int) -> int:
    """Return how many of the waiting units make the next task, at least one.

    Groups that are measured in rotation see more of a node's moods, up to `most` of them; but the last ones are better spread over
    `seats` than waited for, so a task is at most half of a seat's share of what waits.
    """
    share = sum(map(len, waiting)) / (2 * seats)
    count = groups = 0
    for unit in waiting:
        groups += len(unit)
        if count and groups > min(share, most):
            break
        count += 1
    return count


def dispatch(
    units: Iterable[Sequence[Group]], cluster: Cluster, *, most: int, on_start: OnStart, on_done: OnDone, on_failed: OnFailed
) -> None:
    """Have every unit measured and hand each group over exactly once, as `on_done` or as `on_failed` (seat, group, why).

    What is lost with its node waits again, `ATTEMPTS` times in all. Raises NormbenchError when no node is left; what was not handed
    over by then has no records.
    """
    waiting = deque(list(unit) for unit in units)
    busy: dict[str, list[list[Group]]] = {}
    losses: Counter[str] = Counter()
    while waiting or busy:
        free = [seat for seat in cluster.free_seats() if seat not in busy]
        for seat in free:
            if not waiting:
                break
            count = next_task(waiting, len(free) + len(busy), most)
            busy[seat] = [waiting.popleft() for _ in range(count)]
            groups = [group for unit in busy[seat] for group in unit]
            cluster.start(seat, groups)
            on_start(seat, groups)
        if not busy and not cluster.is_hopeful():
            left = sum(map(len, waiting))
            raise NormbenchError(f"no node of the cluster is left to measure on, and {left} cases are not measured: resume the run later")
        for event in cluster.wait(POLL_S):
            task = busy.pop(event.seat)
            if isinstance(event, Measured):
                for group, records in event.results:
                    on_done(group, records)
            elif event.is_lost and (again := _again(task, losses)):
                waiting.extendleft(reversed(again))
                _give_up([unit for unit in task if unit not in again], event, on_failed)
            else:
                _give_up(task, event, on_failed)


def _again(task: Sequence[list[Group]], losses: Counter[str]) -> list[list[Group]]:
    """Return the units of a lost task that may be tried again. One after the other from the second time on: one of them is at fault."""
    losses.update(unit[0].id for unit in task)
    return [unit for unit in task if losses[unit[0].id] < ATTEMPTS]


def _give_up(units: Iterable[Sequence[Group]], event: Broken, on_failed: OnFailed) -> None:
    for unit in units:
        for group in unit:
            on_failed(event.seat, group, event.reason)
