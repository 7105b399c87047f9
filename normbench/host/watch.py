"""Read gauges again and again from a thread, while something else is measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .nvml import Reading

__all__ = ["INTERVAL_S", "Seen", "Watch"]

INTERVAL_S = 0.1
"""Time between two moments. NVML refreshes power and utilisation every 20 to 100 ms; asking more often costs and tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Hold what a watch has seen: by gauge one value per moment in `at_s` (seconds since its start), None where there was none.

    `reasons` has the latest reason of every gauge that ever gave none.
    """

    at_s: list[float]
    values: dict[str, list[Any]]
    reasons: dict[str, str]

    def read(self, name: str) -> list[Any]:
        """Return the values of a gauge at the moments when it had one."""
        return [value for value in self.values[name] if value is not None]


class Watch:
    """Read `gauges` every `interval_s` seconds from `start` to `stop`.

    A gauge gives a value or the reason why there is none, and does not raise. At `limit` moments every other one is dropped and the
    interval is doubled, so that there are never more. Reading takes no more than `share` of the time: what takes long is read less often.
    """

    def __init__(
        self, gauges: Mapping[str, Callable[[], Reading]], *, interval_s: float = INTERVAL_S, limit: int | None = None, share: float = 1.0
    ) -> None:
        assert limit is None or limit >= 2
        assert 0 < share <= 1
        self._gauges = dict(gauges)
        self._interval_s = interval_s
        self._limit = limit
        self._share = share

    def start(self) -> None:
        """Begin to read, the first time one interval from now."""
        self._at_s: list[float] = []
        self._values: dict[str, list[Any]] = {name: [] for name in self._gauges}
        self._reasons: dict[str, str] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read_until_done, name="normbench-watch", daemon=True)
        self._started_s = time.perf_counter()
        self._thread.start()

    @property
    def moments(self) -> int:
        """Return how many moments there are so far."""
        return len(self._at_s)

    def stop(self) -> Seen:
        """End reading and return what was seen: at least one moment, by now perhaps an idle one."""
        self._done.set()
        self._thread.join()
        if not self._at_s:
            self._read_once()
        return Seen(at_s=self._at_s, values=self._values, reasons=self._reasons)

    def _read_until_done(self) -> None:
        pause_s = self._interval_s
        while not self._done.wait(pause_s):
            cost_s = self._read_once()
            pause_s = max(self._interval_s, cost_s * (1 / self._share - 1))

    def _read_once(self) -> float:
        """Read all gauges and return how many seconds that took."""
        start_s = time.perf_counter()
        for name, gauge in self._gauges.items():
            value, reason = gauge()
            self._values[name].append(value)
            if reason is not None:
                self._reasons[name] = reason
        self._at_s.append(start_s - self._started_s)
        if self._limit is not None and len(self._at_s) >= self._limit:
            # Of moments 1, 2, 3, 4 intervals after the start 2 and 4 stay.
            for moments in (self._at_s, *self._values.values()):
                del moments[::2]
            self._interval_s *= 2
        return time.perf_counter() - start_s
