"""What a person sees while a run goes on: a bar with the time left, and the figures of the case in hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.progress import TaskID

from ..cases.metric import Better, Metric
from ..measure.group import Group
from ..measure.rotating import Live
from ..quantities.stats import time_interval
from ..quantities.units import duration, number
from ..records.record import Record, Role, Status
from ..screen.bar import make_bar, make_screen

__all__ = ["Progress"]


class Progress:
    """Observe a run and show it on stderr; a line per finished case, and a bar where stderr is a terminal. A context manager."""

    def __init__(self) -> None:
        self._console = make_screen()
        self._bar = make_bar(self._console)
        self._task: TaskID | None = None
        self._done = 0.0
        # Groups are measured in rotation: without their parts the bar would stand still for a minute and then leap.
        self._parts: dict[str, float] = {}

    def __enter__(self) -> Progress:
        self._console.print("starting the measuring process …")
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def started(self, groups: Sequence[Group], done: int) -> None:
        self._console.print(f"{len(groups)} cases" + (f", {done} of them measured before" if done else ""))
        self._done = float(done)
        self._task = self._bar.add_task("", total=len(groups), completed=done)

    def group_started(self, group: Group) -> None:
        self._describe(f"{group.case.company}: checking against float64")

    def block_done(self, live: Live) -> None:
        metric = live.group.case.metric
        figures = "  ".join(f"{name} {_value_text(metric, seconds)}" for name, seconds in live.time_s.items())
        self._parts[live.group.id] = live.share
        self._describe(f"{live.group.case.company}: process {live.blocks}, {live.spent_s:.0f} s  {figures}")

    def group_done(self, group: Group, records: Sequence[Record]) -> None:
        parts = []
        for record in records:
            if record.role is not Role.PROVIDER:
                continue
            name = record.case.arm(record.provider)
            if record.measurement is not None and record.status is Status.OK:
                interval = time_interval(record.measurement)
                width = f" ±{interval.half_width * 100:.1f} %" if interval.half_width is not None else ""
                parts.append(f"{name} {_value_text(record.metric, interval.estimate)}{width}")
            else:
                parts.append(f"{name} {record.status.value}")
        self._console.print(f"{group.id}  " + "  ".join(parts), soft_wrap=True)
        self._done += 1
        self._parts.pop(group.id, None)
        self._describe("")

    def _describe(self, text: str) -> None:
        if self._task is not None:
            # A group that is decided counts in full; one whose budget is spent is not decided yet.
            completed = self._done + 0.95 * sum(self._parts.values())
            self._bar.update(self._task, description=text, completed=completed)


def _value_text(metric: Metric, time_s: float) -> str:
    """Return what a call of so many seconds comes to, e.g. `12.3 µs` or `5210 tokens/s`."""
    return duration(time_s) if metric.better is Better.LESS else f"{number(metric.value(time_s))} {metric.unit}"
