"""What a gate run knows of one candidate: its checks, its schedule, its blocks, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import msgspec

from ..measure.checking import CheckResult
from ..measure.plan import MIN_CALL_S, Schedule
from ..records.record import Status
from .arms import Presence, presence
from .decide import Decision, Verdict, block_log, log_ratio
from .outcome import CaseResult, Code
from .process import Candidate

__all__ = ["BlockCost", "BlockSamples", "Standing", "block_shares"]

MIN_SAMPLE_S = 2e-4
"""Shortest sample: 1000 times what reading the clock takes. Longer ones let the machine change between the two arms of a turn."""

REPETITIONS = (8, 4, 2, 1)
"""Draws of tensors in a block, the most that leaves enough turns on each. Where tensors lie makes one arm faster than its own copy: a
block of 8 draws of 25 turns spreads half as much as one of 2 draws of 100 (RMSNorm of 64x1024, 1.8 % against 4.0 %)."""

WORTHWHILE_TURNS, MAX_TURNS = 10, 60
"""Turns on one draw that a further draw must leave, and turns beyond which a block tells nothing more."""


class BlockSamples(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the raw samples of one block of one candidate, seconds per call, a tuple for each repetition."""

    candidate: str
    started_at: float
    inner: int
    base_s: tuple[tuple[float, ...], ...]
    head_s: tuple[tuple[float, ...], ...]
    others_cpu_share: float | None = None

    @property
    def log_ratio(self) -> float | None:
        """Return log(head / base) of the block, or None where it cannot be formed."""
        return block_log([log_ratio(head, base) for head, base in zip(self.head_s, self.base_s, strict=True)])


class BlockCost(msgspec.Struct, frozen=True, kw_only=True):
    """Say what a block of one candidate costs in seconds: one call of base, one draw of tensors, and everything else."""

    call_s: float
    draw_s: float
    start_s: float

    @property
    def seen_call_s(self) -> float:
        """Return what a call costs, and no less than any call does: a coarse clock may read 0 for one."""
        return max(self.call_s, MIN_CALL_S)

    def inner(self, *, single: bool) -> int:
        """Return the calls a sample has, of either arm: as many as base needs, or one."""
        return 1 if single else max(1, ceil(MIN_SAMPLE_S / self.seen_call_s))

    def seconds(self, repetitions: int, turns: int, *, single: bool) -> float:
        """Return what a block of both arms takes."""
        return self.start_s + repetitions * (self.draw_s + turns * 2 * self.inner(single=single) * self.seen_call_s)

    def schedule(self, arms: tuple[str, ...], share_s: float, *, single: bool) -> Schedule:
        """Choose what a block does so that it takes about `share_s`, and no less than one draw and one turn."""
        turn_s = 2 * self.inner(single=single) * self.seen_call_s
        for repetitions in REPETITIONS:
            turns = int(((share_s - self.start_s) / repetitions - self.draw_s) / turn_s)
            if turns >= WORTHWHILE_TURNS:
                break
        return Schedule(repetitions=repetitions, turns=min(max(turns, 1), MAX_TURNS), inner=dict.fromkeys(arms, self.inner(single=single)))


def block_shares(costs: Sequence[BlockCost], total_s: float, *, single: bool) -> list[float]:
    """Share the seconds of a round out: everyone the same, but none more than its longest block, and what that leaves to the others."""
    longest = [cost.seconds(REPETITIONS[0], MAX_TURNS, single=single) for cost in costs]
    shares = [0.0] * len(costs)
    left_s = total_s
    for served, place in enumerate(sorted(range(len(costs)), key=longest.__getitem__)):
        shares[place] = min(longest[place], left_s / (len(costs) - served))
        left_s -= shares[place]
    return shares


@dataclass(slots=True, kw_only=True)
class Standing:
    """Keep how one candidate stands; `decision` is None as long as it needs more blocks."""

    candidate: Candidate
    peak_bytes: int = 0
    schedule: Schedule | None = None
    block_s: float = 0.0
    logs: list[float | None] = field(default_factory=list)
    decision: Decision | None = None
    code: Code | None = None
    nowhere: str | None = None
    """Why neither side runs it; such a candidate takes no part."""

    @property
    def is_open(self) -> bool:
        return self.decision is None and self.nowhere is None

    def end(self, verdict: Verdict, reason: str) -> None:
        """Settle the candidate without a comparison."""
        self.decision = Decision(verdict=verdict, reason=reason, blocks=len(self.logs))

    @property
    def result(self) -> CaseResult:
        """Return what is known by now; what no look has decided is undecided."""
        unfinished = Decision(verdict=Verdict.UNDECIDED, reason="the run ended before", blocks=0)
        return CaseResult(case=self.candidate.id, decision=self.decision or unfinished, code=self.code)

    def settle(self, base: CheckResult, head: CheckResult) -> None:
        """Take in how the check of either arm ended; the candidate stays open when both are right."""
        there = presence(base_reason=_unsupported(base), head_reason=_unsupported(head))
        if there is Presence.NEITHER:
            self.nowhere = f"{self.candidate.id} takes no part: {head.reason}"
        elif there is Presence.MISSING:
            self.end(Verdict.MISSING, f"head cannot run it: {head.reason}")
        elif head.status is Status.WRONG:
            self.end(Verdict.WRONG, f"head: {head.reason}")
        elif head.status is not Status.OK:
            self.end(Verdict.FAILED, f"head: {head.reason}")
        elif there is Presence.NEW:
            self.end(Verdict.NEW, f"base cannot run it: {base.reason}")
        elif base.status is not Status.OK:
            self.end(Verdict.NEW, f"base is no reference: {base.reason}")
        else:
            self.peak_bytes = max((result.memory.peak_bytes or 0 for result in (base, head) if result.memory is not None), default=0)


def _unsupported(result: CheckResult) -> str | None:
    return result.reason if result.status in (Status.UNSUPPORTED, Status.SKIPPED) else None
