"""Candidates timed side by side in turns on a CUDA device, each as a ratio to today's launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import torch

from ..cases.case import Case
from ..errors import NormbenchError
from ..measure.plan import Plan, make_schedule
from ..measure.sampler import Call, Samples, first_calls, process_page_faults, take_repetition, warm_up
from ..measure.timer import CudaTimer, Timer
from ..quantities.stats import Interval, ratio_interval
from ..records.measurement import Block, Measurement, StopReason
from .candidates import Candidate
from .operands import Operands, make_call, outputs_of

__all__ = ["device_arch", "ratios_of", "time_candidates"]

PLAN = Plan(budget_s=20.0, max_blocks=10)
"""Its share of one block, 2 s, goes to all candidates of one case together."""

SAME = 1e-4
"""As a share of the largest value. Sums over 32768 rows of float32, split in 264, 528 and 1056, differ by 1e-6 of the largest of 1024."""


def device_arch() -> str | None:
    """Return the architecture of the CUDA device that is here, such as sm_90; None where there is none."""
    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def time_candidates(case: Case, candidates: Sequence[Candidate], *, seed: int) -> dict[Candidate, Interval]:
    """Return the time of each candidate over that of the first, which is today's, on the current CUDA device.

    Raises NormbenchError naming a candidate whose outputs are not those of the first.
    """
    operands = Operands.drawn(case, torch.device("cuda"), seed)
    calls = {candidate.text: make_call(operands, candidate) for candidate in candidates}
    require_same(calls)
    found = ratios_of(calls, CudaTimer(operands.x.device, torch.cuda), seed=seed)
    return {candidate: found[candidate.text] for candidate in candidates}


def require_same(calls: Mapping[str, Callable[[], Any]]) -> None:
    """Refuse a call whose outputs differ from those of the first by more than rounding in another order does, as a share of the largest."""
    first, *others = calls
    wanted = outputs_of(calls[first]())
    for name in others:
        for tensor, value in outputs_of(calls[name]()).items():
            off = float((value.double() - wanted[tensor].double()).abs().max() / wanted[tensor].double().abs().max())
            if not off <= max(SAME, torch.finfo(value.dtype).eps):
                raise NormbenchError(f"the launch {name} computes another {tensor} than {first}: off by {off:.3g} of its largest value")


def ratios_of(calls: Mapping[str, Callable[[], Any]], timer: Timer, *, seed: int) -> dict[str, Interval]:
    """Return the time of each call over that of the first, with 95 % intervals; all take turns in random order."""
    arms = {name: Call(run=run) for name, run in calls.items()}
    rng = Random(seed)
    # The first call compiles: only what comes after it says how long one takes.
    first_calls(arms, timer)
    schedule = make_schedule(PLAN, warm_up(arms, timer), single=frozenset())
    collected: dict[str, list[Samples]] = {}
    for _ in range(schedule.repetitions):
        for name, samples in take_repetition(arms, timer, schedule, rng, process_page_faults).items():
            collected.setdefault(name, []).append(samples)
    measured = {
        name: Measurement(
            timer=timer.name,
            blocks=(Block(started_at=0.0, inner=schedule.inner[name], samples_s=tuple(tuple(samples.time_s) for samples in repetitions)),),
            stop=StopReason.BLOCKS,
        )
        for name, repetitions in collected.items()
    }
    first = next(iter(calls))
    return {name: ratio_interval(one, measured[first]) for name, one in measured.items()}
