"""The task that calls one arm again and again by itself: what its calls cost in energy, and how the device bears them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec

from ..cases.conditions import Conditions
from ..cases.tiers import AnyCase
from ..host.energy import open_energy
from ..host.vitals import Vitals
from ..records.measurement import Sustained
from .process import memory_told, open_workload, prepare_process, synchronise

__all__ = ["CallQueue", "SustainTask", "Tally", "call_for", "sustain"]

WARM_UP_CALLS = 3
"""The first call compiles, and the first two meet pages that were never touched."""


class SustainTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for calls of one arm, back to back for `seconds`. `case` is that of the arm; the cache is as the call before leaves it."""

    case: AnyCase
    conditions: Conditions
    arm: str
    seconds: float
    seed: int


def sustain(task: SustainTask, emit: Callable[[Any], None]) -> None:
    """Call an arm for a while and emit one Sustained. Raises OutOfMemory when the tensors do not fit."""
    with memory_told():
        result = _sustain(task)
    emit(result)


def _sustain(task: SustainTask) -> Sustained:
    device = prepare_process(task.conditions, task.case, task.conditions.pages)
    repetition = open_workload(task.case, (task.arm,), device).repetition(task.seed)
    call, before = repetition.calls[task.arm], repetition.restores.get(task.arm)
    after = _make_queue(device)
    warm = Tally()

    def finish() -> None:
        synchronise(device)

    call_for(task.seconds, call, before=before, after=after, finish=finish, tally=warm, most=WARM_UP_CALLS)
    tally = Tally()
    with open_energy(device) as energy:
        vitals = Vitals.of(device, energy, lambda: tally.made)
        vitals.start()
        before_j = energy.read()
        duration_s = call_for(task.seconds, call, before=before, after=after, finish=finish, tally=tally)
        energy_j, energy_reason = energy.spent(before_j, duration_s)
        signs = vitals.stop()
        return Sustained(
            duration_s=duration_s,
            calls=tally.calls,
            energy_j=energy_j,
            energy_source=energy.source if energy_j is not None else None,
            at_s=signs.at_s,
            series=signs.series,
            throttled=signs.throttled,
            slowdowns=signs.slowdowns,
            reasons=signs.reasons if energy_reason is None else {**signs.reasons, "energy_j": energy_reason},
        )


class Tally:
    """Count calls where another thread may look: `made` is how many, and when the last of them ended, in seconds since the start."""

    def __init__(self) -> None:
        # One value, so that whoever looks never sees a count with the time of another.
        self.made = (0, 0.0)

    @property
    def calls(self) -> int:
        return self.made[0]


def call_for(
    seconds: float,
    call: Callable[[], Any],
    *,
    before: Callable[[], Any] | None,
    after: Callable[[], Any] | None,
    finish: Callable[[], Any],
    tally: Tally,
    most: int | None = None,
    clock: Callable[[], float] = perf_counter,
) -> float:
    """Call until `seconds` have passed, once at least and `most` times at most, `finish`, and return the seconds that all that took.

    `before` and `after` are run around each call, inside the time: an input that is overwritten must be restored, and that is work,
    too. `tally` counts the calls that have returned.
    """
    start = clock()
    while True:
        if before is not None:
            before()
        call()
        if after is not None:
            after()
        tally.made = (tally.calls + 1, clock() - start)
        if tally.made[1] >= seconds or tally.calls == most:
            break
    finish()
    return clock() - start


class CallQueue:
    """Keep the host at most AHEAD calls ahead of a CUDA device, so that it neither runs dry nor far behind the clock.

    Call it after each call. `cuda` is `torch.cuda`, or a stand-in.
    """

    AHEAD = 8

    def __init__(self, device: Any, cuda: Any) -> None:
        self._device = device
        self._cuda = cuda
        self._ends: deque[Any] = deque()

    def __call__(self) -> None:
        if len(self._ends) < self.AHEAD:
            end = self._cuda.Event()
        else:
            end = self._ends.popleft()
            end.synchronize()
        # The event belongs to the tensors' device, which need not be the current one.
        with self._cuda.device(self._device):
            end.record()
        self._ends.append(end)


def _make_queue(device: Any) -> CallQueue | None:
    if device.type != "cuda":
        return None
    import torch

    return CallQueue(device, torch.cuda)
