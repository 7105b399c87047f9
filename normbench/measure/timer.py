"""The only readers of a clock around timed work: wall time on the CPU, events on a CUDA stream, behind one seam."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import repeat, starmap
from time import perf_counter_ns
from types import FunctionType
from typing import Any, Protocol

import msgspec

from ..records.measurement import UNHELD
from .plan import MAX_LAUNCH_S

__all__ = ["CudaTimer", "Sample", "SynchronisedTimer", "Timer", "WallTimer", "run_calls", "timer_of"]


class Sample(msgspec.Struct, frozen=True):
    """Hold seconds per call: `time_s` of the device (wall time on CPU), `host_s` of launching (CUDA only).

    A call with `host_s` above `time_s` is launch-bound: whoever makes such calls one after the other waits for the host.
    """

    time_s: float
    host_s: float | None = None


class Timer(Protocol):
    """Time `inner` calls in a row and return seconds per call."""

    name: str

    def sample(self, call: Callable[[], Any], inner: int) -> Sample: ...


def run_calls(call: Callable[[], Any], count: int) -> None:
    """Run a call `count` times and drop each result before the next, with the interpreter's loop out of the way.

    A C-level loop costs 22 ns a call around a C callable such as a partial, where a `for` costs 39; around a Python function, whose
    frame the interpreter can inline, an unrolled `for` costs 33 against 40 (CPython 3.11; `python -m normbench.measure.overhead`).
    """
    if isinstance(call, FunctionType):
        for _ in repeat(None, count // 8):
            call()
            call()
            call()
            call()
            call()
            call()
            call()
            call()
        count %= 8
    deque(starmap(call, repeat((), count)), maxlen=0)


class WallTimer:
    """Time calls that are done when they return, with the monotonic clock."""

    name = "perf_counter_ns"

    def sample(self, call: Callable[[], Any], inner: int) -> Sample:
        if inner == 1:
            start = perf_counter_ns()
            call()
            stop = perf_counter_ns()
        else:
            start = perf_counter_ns()
            run_calls(call, inner)
            stop = perf_counter_ns()
        return Sample((stop - start) * 1e-9 / inner)


class SynchronisedTimer:
    """Time calls until the device is done with them, as whoever waits for a token does: launching is a part of it.

    `cuda` is `torch.cuda`, or a stand-in.
    """

    name = "perf_counter_ns+synchronize"

    def __init__(self, device: Any, cuda: Any) -> None:
        self._device = device
        self._cuda = cuda

    def sample(self, call: Callable[[], Any], inner: int) -> Sample:
        self._cuda.synchronize(self._device)
        start = perf_counter_ns()
        run_calls(call, inner)
        self._cuda.synchronize(self._device)
        stop = perf_counter_ns()
        return Sample((stop - start) * 1e-9 / inner)


class CudaTimer:
    """Time work queued on a device's current stream by events, the device held back until the queue is full if `is_held`.

    Without the hold a kernel shorter than its launch is timed at launch speed. Where launching takes longer than the hold can last, what
    is left of launching would be taken for the device's time: such calls are timed without it, launching included. `cuda` is
    `torch.cuda`, or a stand-in.
    """

    FIRST_LAUNCH_S = 40e-6
    """A guess of the host's time to queue one call, until it has been seen."""
    HOLD_MARGIN = 1.5
    MAX_HOLD_S = 2 * HOLD_MARGIN * MAX_LAUNCH_S
    """A launch that took very long once (a compilation, another process) must not hold the device for seconds ever after."""
    FASTEST_CLOCK_HZ = 3e9
    """Where the device's clock is not known: no GPU is faster, and a hold may be longer than wanted but not shorter."""

    def __init__(self, device: Any, cuda: Any, *, is_held: bool = True) -> None:
        self.name = "cuda_event" if is_held else UNHELD
        self._cuda = cuda
        self._device = device
        self._is_held = is_held
        # In kHz. CUDA 13 took the field out of its own structure, and not every build of PyTorch has it.
        clock_khz = getattr(cuda.get_device_properties(device), "clock_rate", 0)
        self._clock_hz = clock_khz * 1e3 or self.FASTEST_CLOCK_HZ
        self._launch_s = self.FIRST_LAUNCH_S

    def sample(self, call: Callable[[], Any], inner: int) -> Sample:
        cuda = self._cuda
        # Queueing the end event takes about as long as queueing a call.
        hold_s = min(self.HOLD_MARGIN * self._launch_s * (inner + 1), self.MAX_HOLD_S)
        # Events, sleep and synchronisation belong to the tensors' device, which need not be the current one.
        with cuda.device(self._device):
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            if self._is_held:
                cuda._sleep(int(hold_s * self._clock_hz))
            begin.record()
            start = perf_counter_ns()
            run_calls(call, inner)
            stop = perf_counter_ns()
            end.record()
            end.synchronize()
        host_s = (stop - start) * 1e-9 / inner
        # Arms take turns, and the hold has to last for the slowest: a slower launch is believed at once, a faster one little by little.
        self._launch_s = max(host_s, 0.95 * self._launch_s)
        return Sample(begin.elapsed_time(end) * 1e-3 / inner, host_s)

    def suited_to(self, launch_s: float) -> CudaTimer:
        """Return what times calls whose launching takes the host so long, in seconds."""
        return self if launch_s <= MAX_LAUNCH_S else CudaTimer(self._device, self._cuda, is_held=False)


def timer_of(device: Any, *, is_single: bool) -> Timer:
    """Return the clock of a torch device: of calls whose latency a user waits for, `is_single`, launching is a part."""
    if device.type != "cuda":
        return WallTimer()
    import torch

    return SynchronisedTimer(device, torch.cuda) if is_single else CudaTimer(device, torch.cuda)
