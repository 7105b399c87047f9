"""The task that takes one block of turns: all arms of a group side by side in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from ..cases.case import Tier
from ..cases.conditions import Cache, Conditions, Pages
from ..cases.tiers import AnyCase
from ..host.load import OtherLoad
from ..records.measurement import Block
from .plan import Plan, Schedule, make_schedule
from .process import memory_told, open_workload, prepare_process, synchronise
from .sampler import Call, Samples, first_costs, in_turn, process_page_faults, take_repetition, warm_up
from .timer import CudaTimer, timer_of

if TYPE_CHECKING:
    from ..host.power import PowerMeter

__all__ = ["BlockResult", "BlockTask", "block"]


class BlockTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for one block of turns of the arms of a group, which the names in `providers` stand for; `case` is that of one of them.

    `peak_bytes` is what the hungriest of them needs at once, above its inputs: so many pages are touched before the first call.
    `schedule` is what the block does, made from the plan and the first calls when not given; then the controls take part too.
    """

    case: AnyCase
    conditions: Conditions
    providers: tuple[str, ...]
    plan: Plan
    seed: int
    peak_bytes: int = 0
    schedule: Schedule | None = None


class BlockResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one block's samples by arm, and the device's state while they were taken."""

    timer: str
    blocks: dict[str, Block]
    device_state: dict[str, Any] | None = None


def block(task: BlockTask, emit: Callable[[Any], None]) -> None:
    """Take one block of turns and emit one BlockResult. Raises OutOfMemory when the tensors do not fit."""
    with memory_told():
        result = _take_block(task)
    emit(result)


def _take_block(task: BlockTask) -> BlockResult:
    import torch

    from ..host.cache import make_flush

    device = prepare_process(task.conditions, task.case, task.conditions.pages)
    is_single = task.case.tier is Tier.THROUGHPUT
    timer = timer_of(device, is_single=is_single)
    meter = _make_meter(device)
    rng = Random(task.seed)
    # Where the schedule is given, arms are compared with each other: where tensors lie matters to them, not what stands in them.
    workload = open_workload(task.case, task.providers, device, is_redrawn=task.schedule is None)
    workload.prepare()
    flush = make_flush(device) if task.conditions.cache is Cache.COLD else None
    collected: dict[str, list[Samples]] = {}
    schedule = None
    load = OtherLoad()
    number = 0
    while schedule is None or number < schedule.repetitions:
        start = time.perf_counter()
        # Where tensors lie relative to each other and to cache sets moves timings by percents: draw it afresh.
        ballast = torch.empty(rng.randrange(1, 2**20), dtype=torch.uint8)
        repetition = workload.repetition(task.seed + number)
        allocation_s = time.perf_counter() - start
        runs = dict(repetition.calls) if task.schedule is not None else {**repetition.calls, **repetition.controls()}
        calls = {name: Call(run=run, before=in_turn(repetition.restores.get(name), flush)) for name, run in runs.items()}
        if schedule is None and task.conditions.pages is Pages.REUSED and device.type == "cpu":
            # Pages that are to be reused must have been used. Left to the calls themselves that takes several of each: rms_norm of
            # 32768x4096 by aten still met 393 000 new pages in its second call and took 1.1 s instead of 0.23.
            # Free blocks that do not join cost a tensor or two more than the calls hold at once.
            torch.empty(task.peak_bytes + 2 * repetition.input_bytes, dtype=torch.uint8).fill_(1)
        if schedule is not None:
            warm_up(calls, timer)
        else:
            costs, warm_up_s = first_costs(calls, timer)
            synchronise(device)
            if isinstance(timer, CudaTimer):
                # One clock for all arms: what it tells of them is compared.
                timer = timer.suited_to(max(cost.launch_s for cost in costs.values()))
            single = frozenset(arm for arm, call in calls.items() if is_single or call.before is not None)
            schedule = task.schedule or make_schedule(task.plan, costs, single=single, setup_s=allocation_s + warm_up_s)
        repetition.begin()
        if number == 0:
            load = OtherLoad()
            if meter is not None:
                meter.start()
        for arm, samples in take_repetition(calls, timer, schedule, rng, process_page_faults).items():
            collected.setdefault(arm, []).append(samples)
        number += 1
        del repetition, calls, ballast
    state = meter.stop() if meter is not None else None
    others = load.share()
    blocks = {arm: _as_block(samples, schedule.inner[arm], device, others) for arm, samples in collected.items()}
    return BlockResult(timer=timer.name, blocks=blocks, device_state=state)


def _make_meter(device: Any) -> PowerMeter | None:
    if device.type != "cuda":
        return None
    from ..host.nvml import uuid_of
    from ..host.power import PowerMeter

    return PowerMeter(uuid_of(device))


def _as_block(repetitions: list[Samples], inner: int, device: Any, others_cpu_share: float | None) -> Block:
    calls = inner * sum(len(samples.time_s) for samples in repetitions)
    faults = sum(samples.page_faults for samples in repetitions)
    return Block(
        started_at=time.time(),
        inner=inner,
        samples_s=tuple(tuple(samples.time_s) for samples in repetitions),
        host_s=tuple(tuple(samples.host_s) for samples in repetitions) if any(samples.host_s for samples in repetitions) else None,
        page_faults_per_call=faults / calls if device.type == "cpu" else None,
        others_cpu_share=others_cpu_share,
    )
