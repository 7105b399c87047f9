"""How long, how many, and when to stop: plain numbers in, plain numbers out. Pure; knows no clock.

A case is measured in blocks, each a fresh process. In a block everything is allocated afresh a few times (repetitions), and in each
repetition all arms (providers and controls) take turns: one sample per arm and turn, in random order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isfinite, sqrt

import msgspec

from ..errors import UsageError
from ..quantities.stats import TIME_WIDENING, log_interval
from ..records.measurement import StopReason

__all__ = ["MAX_LAUNCH_S", "MIN_CALL_S", "Cost", "Plan", "Schedule", "make_schedule", "stop_reason"]

MIN_CALL_S = 1e-8
"""No call from Python is shorter: an empty one takes 22 ns. A clock that reads 0 for one must not stop it from being repeated."""
MAX_LAUNCH_S = 2e-3
"""What queueing one sample may take the host, while the device is held back. At 4 us a launch that stays below 1024 launches, where
the driver's queue is full and the host has to wait."""
WORTHWHILE_TURNS = 5
"""A further repetition averages over another draw of pages; it is worth its set-up only if so many turns remain to fill it."""
MIN_TURNS = 1
"""Of a call of seconds one turn a process is enough: an interval speaks of the spread over processes, and more of those tell more.
Of a call that is short beside the set-up of its block, see `_least_turns`."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Say how much may be spent on one case and how sure to become.

    `budget_s` is the wall time of the blocks of one case, all its providers together: a block's start, compilation, set-up and
    warm-up included, the check against the oracle before the first block not. Blocks are added until the 95 % interval of every
    provider's time is within `target_half_width` (relative), or another block would exceed the budget, or `max_blocks` are done.
    An arm of the throughput tier is then called by itself for `sustain_s` more seconds, unless that is 0.
    `floor_blocks` are taken even beyond the budget: fewer give no interval worth printing. No interval is believed to be narrow
    before `min_blocks`. `timeout_s` ends a process that says nothing for so long.
    """

    budget_s: float = 8.0
    target_half_width: float = 0.01
    floor_blocks: int = 5
    min_blocks: int = 5
    max_blocks: int = 10
    max_repetitions: int = 4
    max_turns: int = 20
    min_sample_s: float = 1e-3
    timeout_s: float = 900.0
    sustain_s: float = 0.0
    seed: int = 0

    def validate(self) -> None:
        """Raise UsageError naming the first value that cannot work."""
        for name in ("budget_s", "target_half_width", "min_sample_s", "timeout_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                unit = " of seconds" if name.endswith("_s") else ""
                raise UsageError(f"{name} {value!r} must be a finite number{unit} above 0")
        if not (isfinite(self.sustain_s) and 0 <= self.sustain_s < self.timeout_s):
            # A process says nothing while it runs an arm by itself.
            raise UsageError(
                f"sustain_s {self.sustain_s!r} must be a finite number of seconds, at least 0 and below timeout_s {self.timeout_s!r}"
            )
        if not 1 <= self.floor_blocks <= self.min_blocks <= self.max_blocks:
            raise UsageError(f"blocks must satisfy 1 <= floor ({self.floor_blocks}) <= min ({self.min_blocks}) <= max ({self.max_blocks})")
        if self.max_repetitions < 1:
            raise UsageError(f"max_repetitions {self.max_repetitions} must be at least 1")
        if self.max_turns < MIN_TURNS:
            raise UsageError(f"max_turns {self.max_turns} must be at least {MIN_TURNS}")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Say roughly what one arm costs, in seconds.

    `call_s` is the timed cost of one call, `launch_s` what the host needs to queue it (0 on CPU), and `before_s` what happens before
    each sample, outside the clock.
    """

    call_s: float
    launch_s: float = 0.0
    before_s: float = 0.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Say what one block does: repetitions x turns, and how many calls make a sample of each arm."""

    repetitions: int
    turns: int
    inner: dict[str, int]


def make_schedule(plan: Plan, costs: Mapping[str, Cost], *, single: frozenset[str], setup_s: float = 0.0) -> Schedule:
    """Share the budget out: how many repetitions and turns a block gets, and how many calls a sample of each arm.

    `single` names arms whose samples must be one call (a cold cache, or inputs to be restored); all others repeat a short call until
    a sample lasts `min_sample_s`, or until queueing it takes the host `MAX_LAUNCH_S`. `setup_s` is what a repetition spends on
    allocation and warm-up. Every schedule has a repetition and a turn, more where set-up takes longer than they do, however little
    time there is.
    """
    inner = {arm: 1 if arm in single else _calls_per_sample(plan, cost) for arm, cost in costs.items()}
    turn_s = sum(cost.before_s + inner[arm] * (max(cost.call_s, MIN_CALL_S) + cost.launch_s) for arm, cost in costs.items())
    block_s = plan.budget_s / plan.max_blocks
    repetitions = plan.max_repetitions
    while repetitions > 1 and _affordable_turns(block_s, repetitions, setup_s, turn_s) < WORTHWHILE_TURNS:
        repetitions -= 1
    turns = max(_affordable_turns(block_s, repetitions, setup_s, turn_s), _least_turns(setup_s, turn_s))
    return Schedule(repetitions=repetitions, turns=min(turns, plan.max_turns), inner=inner)


def _calls_per_sample(plan: Plan, cost: Cost) -> int:
    wanted = ceil(plan.min_sample_s / max(cost.call_s, MIN_CALL_S))
    queueable = int(MAX_LAUNCH_S / cost.launch_s) if cost.launch_s > 0 else wanted
    return max(1, min(wanted, queueable))


def _affordable_turns(block_s: float, repetitions: int, setup_s: float, turn_s: float) -> int:
    return int((block_s / repetitions - setup_s) / turn_s)


def _least_turns(setup_s: float, turn_s: float) -> int:
    """Return how many turns a block has at least: the best use of its set-up, where turns vary as much as blocks do.

    A mean over blocks of n turns varies as (1 + 1 / n) / blocks, and so many blocks cost blocks x (setup_s + n x turn_s): for a given
    cost the variance is least near n = sqrt(setup_s / turn_s) (two-stage sampling; Cochran, Sampling Techniques, 1977, section 10.6),
    of whole numbers at the n whose n (n - 1) is at most setup_s / turn_s and n (n + 1) at least.
    """
    return min(max(ceil(sqrt(setup_s / turn_s + 0.25) - 0.5), MIN_TURNS), WORTHWHILE_TURNS)


def stop_reason(plan: Plan, log_medians: Mapping[str, Sequence[float]], spent_s: float) -> StopReason | None:
    """Return why measuring may end, or None to go on.

    `log_medians` holds one log time per block for every provider (controls do not count), `spent_s` the wall time of all blocks.
    """
    blocks = min(len(values) for values in log_medians.values())
    if blocks < plan.floor_blocks:
        return None
    if blocks >= plan.min_blocks:
        widths = [log_interval(values, "process", widening=TIME_WIDENING).half_width for values in log_medians.values()]
        if all(width is not None and width <= plan.target_half_width for width in widths):
            return StopReason.NARROW
    if blocks >= plan.max_blocks:
        return StopReason.BLOCKS
    # The next block will cost about as much as the ones before.
    if spent_s + spent_s / blocks > plan.budget_s:
        return StopReason.BUDGET
    return None
