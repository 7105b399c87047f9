"""One step watched: steps with PyTorch's profiler and steps without it take turns, and what the profiler saw becomes plain records.

Norms are told from the rest by a range around the forward of every module (`ranges.py`) and, in the backward pass, by autograd's numbers
(`costs.py`). So a norm's time is that of its operators and of all that its module does between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._C._autograd import DeviceType

from ..errors import NormbenchError, UsageError
from ..measure.memory import quiet_kineto
from ..measure.timer import Timer, WallTimer
from .costs import step_costs
from .events import Event, EventKind, Kernel
from .modules import describe_modules
from .ranges import module_ranges
from .summary import Basis, Profile, Turn, summarise

__all__ = ["STEPS", "profile_step"]

STEPS = 20
"""Turns, of which the quieter half is kept."""
WARM_UP = 3
"""Steps of each sort before the turns: allocators, thread pools and the profiler itself start in them."""

Finish = Callable[[], Any] | None
"""What waits until all work is done, or None where it is done when a step returns."""

_STEP = "normbench: step"
_NODE = "autograd::engine::evaluate_function: "
_RUNTIME = re.compile(r"(cuda|cu|hip)[A-Z]\w*")
"""cudaLaunchKernel, cuLaunchKernelEx, hipLaunchKernel: calls of the driver. Operators have a namespace before two colons."""


def profile_step(model: nn.Module, step: Callable[[], Any], *, steps: int = STEPS, trace: Path | None = None) -> Profile:
    """Return where the time of `step` goes, a function that runs the model forward and, in training, the loss and its backward.

    `steps` steps without the profiler and as many with it take turns. Gradients of the model's parameters are dropped before each step,
    outside of it. The last step's Chrome trace is written to `trace`, whose folder must exist. Seconds are wall time where the model is
    on a CPU; on a GPU kernels are timed on the device besides. Raises UsageError for fewer than one step, and NormbenchError where the
    trace cannot be written.
    """
    if steps < 1:
        raise UsageError(f"steps {steps} is less than 1: a profile needs a step")
    device = next((parameter.device for parameter in model.parameters() if parameter.is_cuda), None)
    finish = None if device is None else partial(torch.cuda.synchronize, device)
    modules = describe_modules(model, step)
    timer = WallTimer()
    turns: list[Turn] = []
    watched = None
    with quiet_kineto():
        for number in range(-WARM_UP, steps):
            # Whoever goes second finds caches as the other left them, so they take it in turns to go first.
            if number % 2:
                host_s, plain_s = _plain(model, step, finish, timer)
                watched = _watched(model, step, finish, timer)
            else:
                watched = _watched(model, step, finish, timer)
                host_s, plain_s = _plain(model, step, finish, timer)
            if number >= 0:
                profiler, profiled_s, paths = watched
                turns.append(Turn(plain_s=plain_s, host_s=host_s, profiled_s=profiled_s, costs=step_costs(_events(profiler, paths))))
    if trace is not None and watched is not None:
        _write_trace(watched[0], trace)
    model.zero_grad(set_to_none=True)
    return summarise(turns, modules, Basis.DEVICE if finish else Basis.HOST)


def _plain(model: nn.Module, step: Callable[[], Any], finish: Finish, timer: Timer) -> tuple[float, float]:
    """Run a step without the profiler; return the seconds until it returned and those until all was done."""
    model.zero_grad(set_to_none=True)
    host_s = timer.sample(step, 1).time_s
    return host_s, host_s + (timer.sample(finish, 1).time_s if finish else 0.0)


def _watched(
    model: nn.Module, step: Callable[[], Any], finish: Finish, timer: Timer
) -> tuple[torch.profiler.profile, float, dict[str, str]]:
    """Run a step with the profiler; return the profiler, the seconds until all was done, and the path of each module's name."""
    activities = [torch.profiler.ProfilerActivity.CPU, *([torch.profiler.ProfilerActivity.CUDA] if finish else [])]

    def named_step() -> None:
        with torch.profiler.record_function(_STEP):
            step()

    model.zero_grad(set_to_none=True)
    with module_ranges(model) as paths, torch.profiler.profile(activities=activities, acc_events=False) as profiler:
        profiled_s = timer.sample(named_step, 1).time_s
        profiled_s += timer.sample(finish, 1).time_s if finish else 0.0
    return profiler, profiled_s, paths


def _events(profiler: torch.profiler.profile, paths: Mapping[str, str]) -> Iterator[Event]:
    """Yield what happened on host threads, with the kernels that each launched."""
    for found in profiler.events() or ():  # type: ignore[no-untyped-call]
        if found.device_type != DeviceType.CPU or found.is_async:
            continue
        name, kind = _name_and_kind(found.name, paths)
        yield Event(
            name=name,
            kind=kind,
            start_s=found.time_range.start * 1e-6,
            end_s=found.time_range.end * 1e-6,
            thread=found.thread,
            sequence=found.sequence_nr if found.sequence_nr >= 0 else None,
            forward_thread=found.fwd_thread or 0,
            # The device's record repeats ranges of the host as if they were kernels.
            kernels=tuple(
                Kernel(name=kernel.name, time_s=kernel.duration * 1e-6)
                for kernel in found.kernels
                if kernel.name not in paths and kernel.name != _STEP
            ),
        )


def _name_and_kind(name: str, paths: Mapping[str, str]) -> tuple[str, EventKind]:
    if name == _STEP:
        return name, EventKind.STEP
    if name in paths:
        return paths[name], EventKind.MODULE
    if name.startswith(_NODE):
        return name.removeprefix(_NODE), EventKind.NODE
    return name, EventKind.RUNTIME if _RUNTIME.fullmatch(name) else EventKind.OPERATOR


def _write_trace(profiler: torch.profiler.profile, path: Path) -> None:
    """Write a Chrome trace, which Perfetto and chrome://tracing open. Raises NormbenchError where nothing was written."""
    path.unlink(missing_ok=True)
    profiler.export_chrome_trace(str(path))
    if not path.is_file():
        raise NormbenchError(f"the trace cannot be written to {path}: give a file in a folder that exists and can be written")
