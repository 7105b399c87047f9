"""Clocks that go by themselves: what a call costs is written on it, so that tests of timing take no time and never vary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

from normbench.measure.timer import Sample


class FakeTimer:
    """Advance a clock by what each call says it costs, and keep the order of everything that happens in `events`."""

    name = "fake"

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events: list[Any] = []

    def clock(self) -> float:
        return self.now_s

    def call(self, name: str, costs_s: float | Iterable[float]) -> Callable[[], None]:
        """Return a call that takes the given times one after the other, the last one from then on."""
        costs = [costs_s] if isinstance(costs_s, float) else list(costs_s)
        upcoming = chain(costs, repeat(costs[-1]))

        def run() -> None:
            self.events.append(name)
            self.now_s += next(upcoming)

        return run

    def sample(self, call: Callable[[], Any], inner: int) -> Sample:
        self.events.append("start")
        start = self.now_s
        for _ in range(inner):
            call()
        self.events.append("stop")
        return Sample((self.now_s - start) / inner)
