"""The task that runs arms of the throughput tier under a limit of memory: one by itself, or several in turn, and nothing beside them.

The engine's own block runs a control too, and keeps the network it copies for each repetition. Both would count against the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import torch

from ..cases.conditions import Conditions
from ..cases.throughput_case import Mode, ThroughputCase
from ..measure.pages import page_control_reason
from ..measure.plan import Plan, make_schedule
from ..measure.process import memory_told, prepare_process
from ..measure.sampler import Call, first_calls, process_page_faults, take_repetition, warm_up
from ..measure.timer import Sample, Timer, timer_of
from ..models.networks import network
from ..workloads.model import plain_network, split_arm, swapped_network, without_sharing
from ..workloads.serving import Decoding
from ..workloads.throughput import token_call
from ..workloads.training import microbatches
from .limit import anonymous_bytes, limited, take_in_small_steps

__all__ = ["TurnsResult", "TurnsTask", "take_turns"]


class TurnsTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for turns of `arms`, named by `ThroughputCase.arm`; `case` is that of one of them, of the batch that is to be tried.

    `limit_bytes` is what the process may take, None for all there is. `is_thorough` asks for a decode to write all of its positions
    before it is timed: its cache is largest at the last one.
    """

    case: ThroughputCase
    conditions: Conditions
    arms: tuple[str, ...]
    plan: Plan
    seed: int
    limit_bytes: int | None
    is_thorough: bool = False


class TurnsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the seconds of each call by arm, those of all calls together, and the most memory that the process held, in bytes.

    On CPU memory is what the process touched on top of what it began with, the allocator's waste included; null where pages that are
    let go of cannot be kept. On CUDA it is what PyTorch's allocator gave out.
    """

    samples_s: dict[str, tuple[float, ...]]
    spent_s: float
    peak_bytes: int | None


def take_turns(task: TurnsTask, emit: Callable[[Any], None]) -> None:
    """Run the arms in this process and emit one TurnsResult. Raises OutOfMemory where they do not fit."""
    with memory_told(), limited(task.limit_bytes, task.conditions.device):
        result = _take_turns(task)
    emit(result)


class _Spending:
    """Count the seconds of all calls that a timer times."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self.name = timer.name
        self.spent_s = 0.0

    def sample(self, call: Callable[[], Any], inner: int) -> Sample:
        found = self._timer.sample(call, inner)
        self.spent_s += found.time_s * inner
        return found


def _take_turns(task: TurnsTask) -> TurnsResult:
    before_bytes = anonymous_bytes() if task.conditions.device == "cpu" else 0
    device = prepare_process(task.conditions, task.case, task.conditions.pages)
    if device.type == "cpu":
        take_in_small_steps()
    timer = _Spending(timer_of(device, is_single=True))
    calls = {name: _call_of(task, name, device) for name in task.arms}
    first_calls(calls, timer)
    if task.is_thorough and task.case.mode is Mode.DECODE:
        for call in calls.values():
            for _ in range(task.case.size[1] - task.case.prompt - 1):
                call.prepare()
                timer.sample(call.run, 1)
    # What a process does once is no part of what turns cost: a compilation would leave no time for them.
    once_s = timer.spent_s
    costs = warm_up(calls, timer)
    schedule = make_schedule(task.plan, costs, single=frozenset(calls), setup_s=timer.spent_s - once_s)
    samples = take_repetition(calls, timer, schedule, Random(task.seed), process_page_faults)
    return TurnsResult(
        samples_s={name: tuple(found.time_s) for name, found in samples.items()},
        spent_s=timer.spent_s,
        peak_bytes=_peak_bytes(device, before_bytes),
    )


def _peak_bytes(device: torch.device, before_bytes: int) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # With pages that are kept for reuse a process never gives memory back: what it holds in the end is the most it held.
    return anonymous_bytes() - before_bytes if page_control_reason() is None else None


def _call_of(task: TurnsTask, arm: str, device: torch.device) -> Call:
    case, found = task.case, network(task.case.network)
    norm, provider = split_arm(arm)
    # The norms are new modules; all other parameters are those of the one network that this process has.
    model = swapped_network(plain_network(case.model_case, device), norm, provider)
    if case.mode is Mode.TRAIN and len(task.arms) > 1:
        # Training changes parameters: arms that take turns have their own, one by itself needs no second copy.
        model = without_sharing(model)
    call = token_call(case, found, model, microbatches(case, found, device, seed=task.seed), device)
    return Call(run=call, before=call.make_room) if isinstance(call, Decoding) else Call(run=call)
