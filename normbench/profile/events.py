"""What a profiler saw of one step, as plain records, and which event ran inside which. Pure.

Nothing here knows a profiler: `capture.py` makes the records, and made-up ones do as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from ..errors import NormbenchError

__all__ = ["Event", "EventKind", "Kernel", "Tree", "covered_s"]


class EventKind(StrEnum):
    """Say what an event is.

    step: the whole step, once. module: a call of a module, named by its path. node: the autograd engine evaluating one backward node.
    operator: an ATen or other operator, or the function of a backward node. runtime: a call of the device's driver.
    """

    STEP = "step"
    MODULE = "module"
    NODE = "node"
    OPERATOR = "operator"
    RUNTIME = "runtime"


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one kernel or copy on a device: its name and its seconds there."""

    name: str
    time_s: float


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one event on one host thread, in seconds since any fixed moment.

    `sequence` is autograd's number: that of a node is the one which the operator that made the node was recorded with on
    `forward_thread`. `kernels` are those that the event itself launched, not those of events inside it.
    """

    name: str
    kind: EventKind
    start_s: float
    end_s: float
    thread: int = 0
    sequence: int | None = None
    forward_thread: int = 0
    kernels: tuple[Kernel, ...] = ()


class Tree:
    """Hold the events of one step in order of their start, and for each the event it ran inside of.

    Events that began or ended outside the step are left out. An event that no other of its thread holds ran inside the innermost event of
    the step's own thread at its start: on a GPU the autograd engine works in a thread of its own while the step waits for it.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        events = list(events)
        steps = [event for event in events if event.kind is EventKind.STEP]
        if len(steps) != 1:
            raise NormbenchError(f"{len(steps)} events are the step; a profile is that of one step")
        step = steps[0]
        inside = [event for event in events if event is not step and step.start_s <= event.start_s and event.end_s <= step.end_s]
        # Of two that start together the longer one holds the other; of two alike the one that was recorded first.
        self.events: list[Event] = [step, *sorted(inside, key=lambda event: (event.start_s, -event.end_s))]
        self.parents: list[int | None] = [None]
        self.children: list[list[int]] = [[] for _ in self.events]
        running: dict[int, list[int]] = {step.thread: [0]}
        for index, event in enumerate(self.events[1:], 1):
            for stack in (running[step.thread], running.setdefault(event.thread, [])):
                while len(stack) > (stack is running[step.thread]) and self.events[stack[-1]].end_s <= event.start_s:
                    stack.pop()
            own = running[event.thread]
            parent = (own or running[step.thread])[-1]
            own.append(index)
            self.parents.append(parent)
            self.children[parent].append(index)

    def ancestors(self, index: int) -> Iterator[Event]:
        """Yield the event itself and then what it ran inside of, innermost first."""
        at: int | None = index
        while at is not None:
            yield self.events[at]
            at = self.parents[at]

    def self_s(self, index: int) -> float:
        """Return the seconds of an event during which none of those inside it ran."""
        event = self.events[index]
        return max(0.0, event.end_s - event.start_s - covered_s([self.events[child] for child in self.children[index]], within=event))


def covered_s(events: Sequence[Event], within: Event) -> float:
    """Return the seconds of `within` during which at least one of the events ran."""
    total, reached = 0.0, within.start_s
    for event in sorted(events, key=lambda event: event.start_s):
        start, end = max(event.start_s, reached), min(event.end_s, within.end_s)
        if end > start:
            total += end - start
            reached = end
    return total
