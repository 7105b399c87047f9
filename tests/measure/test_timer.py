"""Timers divide by the calls they made, and on CUDA ask the device, which is held back until its queue is full."""

from __future__ import annotations

import gc
import time
import weakref
from functools import partial
from types import SimpleNamespace

import pytest

from normbench.measure import timer as timer_module
from normbench.measure.plan import MAX_LAUNCH_S
from normbench.measure.timer import CudaTimer, SynchronisedTimer, WallTimer, run_calls, timer_of
from normbench.records.measurement import UNHELD

# 1 is a sample of its own; 7, 8 and 9 lie around the unrolled eight; 1000 is what a call of a microsecond needs.
COUNTS = [1, 7, 8, 9, 1000]


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def python_function(counter: Counter):
    def call() -> None:
        counter()

    return call


# A plain function and any other callable go through different loops.
@pytest.mark.parametrize("kind", [python_function, partial], ids=["function", "partial"])
@pytest.mark.parametrize("count", [0, *COUNTS])
def test_calls_are_counted(kind, count):
    counter = Counter()
    run_calls(kind(counter), count)
    assert counter.calls == count


@pytest.mark.parametrize("kind", [python_function, partial], ids=["function", "partial"])
def test_result_is_dropped_before_the_next_call(kind):
    # The next call would otherwise not find the pages of the last one's output free, and need twice the memory.
    class Output:
        pass

    alive: list[weakref.ref] = []
    most = 0

    def make() -> Output:
        nonlocal most
        most = max(most, sum(reference() is not None for reference in alive))
        output = Output()
        alive.append(weakref.ref(output))
        return output

    gc.disable()
    try:
        run_calls(make if kind is python_function else partial(make), 20)
    finally:
        gc.enable()
    assert most == 0
    assert all(reference() is None for reference in alive)


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock of the timers by one that advances by a microsecond when it is read, and by what calls add to it."""
    state = SimpleNamespace(now_ns=0)

    def read() -> int:
        state.now_ns += 1000
        return state.now_ns

    monkeypatch.setattr(timer_module, "perf_counter_ns", read)
    return state


@pytest.mark.parametrize("count", COUNTS)
def test_wall_time_is_seconds_per_call(clock, count):
    made = 0

    def call() -> None:
        nonlocal made
        made += 1
        clock.now_ns += 5_000_000

    sample = WallTimer().sample(call, count)
    assert made == count
    assert sample.time_s == pytest.approx((count * 5e-3 + 1e-6) / count)
    assert sample.host_s is None


def test_wall_timer_agrees_with_the_clock():
    start = time.perf_counter()
    sample = WallTimer().sample(partial(sum, range(1000)), 200)
    assert 0 < sample.time_s * 200 < time.perf_counter() - start


class FakeCuda:
    """Stand in for `torch.cuda`: a device that works through its queue in its own time, and a host that sees none of it.

    Launching takes `launch_s` of the host's clock, a kernel `kernel_s` of the device's. As in PyTorch, an event is recorded on the
    current device, elapsed_time is in milliseconds and needs both events to have happened, and `_sleep` takes clock cycles.
    """

    def __init__(self, clock, *, kernel_s: float = 10e-6, launch_s: float = 5e-6, clock_khz: int | None = 1_000_000) -> None:
        self.clock, self.kernel_s, self.launch_s = clock, kernel_s, launch_s
        self.properties = SimpleNamespace() if clock_khz is None else SimpleNamespace(clock_rate=clock_khz)
        self.cycles_hz = 1e9
        self.current = 0
        self.device_free_at_s = 0.0
        self.log: list = []
        self.holds_s: list[float] = []

    def now_s(self) -> float:
        return self.clock.now_ns * 1e-9

    def queue(self, duration_s: float) -> float:
        """Add work to the device's queue and return when it will be done."""
        self.device_free_at_s = max(self.device_free_at_s, self.now_s()) + duration_s
        return self.device_free_at_s

    def get_device_properties(self, device):
        return self.properties

    def device(self, index):
        fake = self

        class Guard:
            def __enter__(self):
                self.previous, fake.current = fake.current, index
                fake.log.append(f"enter {index}")

            def __exit__(self, *exc_info):
                fake.current = self.previous
                fake.log.append(f"leave {index}")

        return Guard()

    def _sleep(self, cycles: int) -> None:
        assert isinstance(cycles, int)
        self.log.append(f"hold on {self.current}")
        self.holds_s.append(cycles / self.cycles_hz)
        self.queue(cycles / self.cycles_hz)

    def Event(self, enable_timing: bool):
        assert enable_timing
        fake = self

        class Event:
            done_at_s: float | None = None

            def record(self) -> None:
                fake.log.append(f"record on {fake.current}")
                self.done_at_s = fake.queue(0.0)

            def synchronize(self) -> None:
                fake.log.append("synchronise")
                assert self.done_at_s is not None
                fake.clock.now_ns = max(fake.clock.now_ns, round(self.done_at_s * 1e9))

            def elapsed_time(self, end: Event) -> float:
                assert self.done_at_s is not None
                assert end.done_at_s is not None
                assert end.done_at_s <= fake.now_s() + 1e-9, "not waited for"
                return (end.done_at_s - self.done_at_s) * 1e3

        return Event()

    def call(self) -> None:
        self.log.append(f"call on {self.current}")
        self.clock.now_ns += round(self.launch_s * 1e9)
        self.queue(self.kernel_s)


def test_order_of_a_cuda_sample(clock):
    cuda = FakeCuda(clock)
    CudaTimer(0, cuda).sample(cuda.call, 2)
    assert cuda.log == [
        "enter 0",
        # The queue is held, then filled; the device is waited for once, at the end.
        "hold on 0",
        "record on 0",
        "call on 0",
        "call on 0",
        "record on 0",
        "synchronise",
        "leave 0",
    ]


def test_device_that_is_not_the_current_one_is_timed_and_the_current_one_restored(clock):
    cuda = FakeCuda(clock)
    CudaTimer(1, cuda).sample(cuda.call, 1)
    assert cuda.log == ["enter 1", "hold on 1", "record on 1", "call on 1", "record on 1", "synchronise", "leave 1"]
    assert cuda.current == 0


def test_current_device_is_restored_after_a_call_that_fails(clock):
    cuda = FakeCuda(clock)
    with pytest.raises(ZeroDivisionError):
        CudaTimer(1, cuda).sample(lambda: 1 / 0, 1)
    assert cuda.current == 0


@pytest.mark.parametrize("count", COUNTS)
def test_device_and_host_time_are_separate_and_per_call(clock, count):
    # A kernel of 100 us, launched in 5: the device decides.
    cuda = FakeCuda(clock, kernel_s=100e-6, launch_s=5e-6)
    sample = CudaTimer(0, cuda).sample(cuda.call, count)
    assert sample.time_s == pytest.approx(100e-6)
    assert sample.host_s == pytest.approx((count * 5e-6 + 1e-6) / count)


# A launch of 5 us is the least that CUDA has; of 30 us a Triton kernel; of 300 us a compiled backward.
@pytest.mark.parametrize("launch_s", [5e-6, 30e-6, 300e-6])
def test_kernel_shorter_than_its_launch_is_timed_at_its_own_speed(clock, launch_s):
    cuda = FakeCuda(clock, kernel_s=2e-6, launch_s=launch_s)
    timer = CudaTimer(0, cuda)
    calls = max(1, int(MAX_LAUNCH_S / launch_s))
    timer.sample(cuda.call, 1)
    sample = timer.sample(cuda.call, calls)
    assert sample.time_s == pytest.approx(2e-6)
    assert sample.host_s is not None
    assert sample.host_s > sample.time_s, "which says that the call is launch-bound"


# 1500 launches of 8 us, and 4000: more than the device can be held back for. As many kernels of 2 us take it 3 ms, and 8.
@pytest.mark.parametrize("kernels", [1500, 4000])
def test_call_that_takes_too_long_to_launch_is_timed_with_its_launching(clock, kernels):
    cuda = FakeCuda(clock, kernel_s=2e-6, launch_s=8e-6)

    def step() -> None:
        for _ in range(kernels):
            cuda.call()

    timer = CudaTimer(0, cuda).suited_to(kernels * 8e-6)
    sample = timer.sample(step, 1)
    assert sample.time_s == pytest.approx(kernels * 8e-6 + 2e-6, rel=1e-3)
    assert cuda.holds_s == []
    assert timer.name == UNHELD


def test_timer_that_suits_goes_on_with_what_it_has_learnt(clock):
    cuda = FakeCuda(clock, launch_s=300e-6)
    timer = CudaTimer(0, cuda)
    timer.sample(cuda.call, 1)
    assert timer.suited_to(300e-6) is timer
    assert timer.name == "cuda_event"


def test_first_sample_assumes_a_usual_launch(clock):
    cuda = FakeCuda(clock, kernel_s=2e-6, launch_s=35e-6)
    assert CudaTimer(0, cuda).sample(cuda.call, 10).time_s == pytest.approx(2e-6)


def test_launch_bound_shows_even_where_the_hold_was_too_short(clock):
    cuda = FakeCuda(clock, kernel_s=2e-6, launch_s=1e-3)
    sample = CudaTimer(0, cuda).sample(cuda.call, 10)
    assert sample.time_s > 2e-6, "the device ran dry"
    assert sample.host_s is not None
    assert sample.host_s > sample.time_s


def test_hold_grows_with_the_calls_up_to_a_limit(clock):
    cuda = FakeCuda(clock)
    timer = CudaTimer(0, cuda)
    for count in (1, 10, 10_000):
        timer = CudaTimer(0, cuda)
        timer.sample(cuda.call, count)
    assert cuda.holds_s == pytest.approx([1.5 * 40e-6 * 2, 1.5 * 40e-6 * 11, timer.MAX_HOLD_S])
    # What the plan lets a sample take to launch fits, with the margin.
    assert timer.MAX_HOLD_S > timer.HOLD_MARGIN * MAX_LAUNCH_S


def test_hold_follows_the_slowest_launch_and_forgets_an_outlier(clock):
    cuda = FakeCuda(clock, launch_s=20e-6)
    timer = CudaTimer(0, cuda)
    timer.sample(cuda.call, 100)
    cuda.launch_s = 1.0
    timer.sample(cuda.call, 1)
    cuda.launch_s = 20e-6
    for _ in range(300):
        timer.sample(cuda.call, 1)
    assert cuda.holds_s[2] == pytest.approx(timer.MAX_HOLD_S), "a second's launch was seen"
    assert 1.5 * 2 * 20e-6 < cuda.holds_s[-1] < 1.5 * 2 * 25e-6, "and is forgotten"


# CUDA 13 has no clockRate in its device properties, so a build of PyTorch may lack it. The hold must not be shorter than wanted on
# any GPU, and none is faster than 3 GHz.
@pytest.mark.parametrize(("clock_khz", "cycles_hz"), [(1_980_000, 1.98e9), (None, 3e9), (0, 3e9)])
def test_hold_is_in_cycles_of_the_device(clock, clock_khz, cycles_hz):
    cuda = FakeCuda(clock, clock_khz=clock_khz)
    cuda.cycles_hz = cycles_hz
    CudaTimer(0, cuda).sample(cuda.call, 1)
    assert cuda.holds_s == pytest.approx([1.5 * 40e-6 * 2])


def test_stand_in_has_the_names_of_torch_cuda():
    import torch

    for name in ("Event", "_sleep", "device", "get_device_properties"):
        assert callable(getattr(torch.cuda, name))
    assert all(hasattr(torch.cuda.Event, name) for name in ("record", "synchronize", "elapsed_time"))


def test_a_synchronised_sample_lasts_until_the_device_is_done():
    events = []
    cuda = SimpleNamespace(synchronize=lambda device: events.append(device) or time.sleep(0.01))
    sample = SynchronisedTimer("cuda:0", cuda).sample(lambda: events.append("call"), 2)
    assert events == ["cuda:0", "call", "call", "cuda:0"]
    # One wait of 10 ms is inside, shared by two calls; what was queued before is not.
    assert 0.005 <= sample.time_s < 0.01
    assert sample.host_s is None


@pytest.mark.parametrize(
    ("device", "is_single", "kind"),
    [("cpu", False, WallTimer), ("cpu", True, WallTimer), ("cuda", False, CudaTimer), ("cuda", True, SynchronisedTimer)],
)
def test_the_clock_is_the_devices_and_waits_for_it_where_a_user_does(monkeypatch, device, is_single, kind):
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(clock_rate=1_000_000))
    assert type(timer_of(SimpleNamespace(type=device), is_single=is_single)) is kind
