"""What a gate run knows of one candidate: its checks, its schedule, its blocks, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import msgspec

from ..measure.checking import CheckResult
from ..measure.plan import Schedule
from ..record import Status
from .arms import Presence, presence
from .decide import Decision, Verdict, block_log, log_ratio
from .process import Candidate

__all__ = ["BlockSamples", "Standing", "gate_schedule"]

MIN_SAMPLE_S = 2e-4
"""Shortest sample: 1000 times what reading the clock takes. Longer ones let the machine change between the two arms of a turn."""

REPETITIONS = 2
MIN_TURNS, MAX_TURNS = 3, 25
"""Draws of tensors in a block, and turns on each: the spread over blocks falls with both until set-up takes most of the time."""


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


def gate_schedule(arms: tuple[str, ...], *, call_s: float, overhead_s: float, share_s: float, single: bool) -> Schedule:
    """Choose what a block does so that it takes about `share_s` seconds, of which a repetition's set-up takes `overhead_s`.

    `call_s` is one call of base: both arms get the calls per sample that base needs. `single` asks for one call a sample.
    """
    inner = 1 if single else max(1, ceil(MIN_SAMPLE_S / call_s))
    turns = int((share_s / REPETITIONS - overhead_s) / (len(arms) * inner * call_s))
    return Schedule(repetitions=REPETITIONS, turns=min(max(turns, MIN_TURNS), MAX_TURNS), inner=dict.fromkeys(arms, inner))


@dataclass(slots=True, kw_only=True)
class Standing:
    """Keep how one candidate stands; `decision` is None as long as it needs more blocks."""

    candidate: Candidate
    peak_bytes: int = 0
    schedule: Schedule | None = None
    block_s: float = 0.0
    logs: list[float | None] = field(default_factory=list)
    decision: Decision | None = None
    nowhere: str | None = None
    """Why neither side runs it; such a candidate takes no part."""

    @property
    def is_open(self) -> bool:
        return self.decision is None and self.nowhere is None

    def end(self, verdict: Verdict, reason: str) -> None:
        """Settle the candidate without a comparison."""
        self.decision = Decision(verdict=verdict, reason=reason, blocks=len(self.logs))

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
