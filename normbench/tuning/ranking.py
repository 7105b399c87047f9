"""Which of several launches is best, over every norm and device that it has to serve, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .candidates import Candidate
from .model import Bound, Estimate

__all__ = ["Judged", "Standing", "stand", "why"]

TIE = 0.02
"""Estimates as close as this are no difference: today's launch is kept, and the gate's margin on time is no narrower."""

CLEARLY = 0.10
"""What a launch must be better by to be worth a change by the model alone, which knows no barriers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Hold a candidate with one estimate for each norm and device, and, where it was timed, its time over today's."""

    candidate: Candidate
    estimates: tuple[Estimate, ...]
    time_ratio: float | None = None

    @property
    def worst(self) -> Estimate:
        """Return the estimate that is furthest from the floor; one that breaks a budget before all others."""
        return max(self.estimates, key=lambda one: (bool(one.broken), one.slowdown))

    @property
    def is_sound(self) -> bool:
        """Say whether the code keeps every budget, and fits, everywhere."""
        return not any(one.broken for one in self.estimates) and self.slowdown < float("inf")

    @property
    def slowdown(self) -> float:
        """Return the largest estimate, as a multiple of the memory floor."""
        return max(one.slowdown for one in self.estimates)

    @property
    def resident_warps(self) -> float:
        """Return the fewest warps that any device holds at once."""
        return min(one.resident_warps for one in self.estimates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Hold today's launch beside the best one, which is today's where nothing is better; `gain` is by how much that is faster.

    0.25 says that today's takes 1.25 times as long, by the clock where `is_timed`, else by the model.
    """

    today: Judged
    best: Judged
    gain: float
    is_timed: bool

    @property
    def is_clear(self) -> bool:
        """Say whether the best launch is better by more than the model can be wrong by, or today's breaks a budget."""
        return self.gain > (TIE if self.is_timed else CLEARLY)


def stand(judged: Mapping[Candidate, Judged], today: Candidate) -> Standing:
    """Return where today's launch stands among candidates. Those that break a budget are out; time, where there is any, decides."""
    own = judged[today]
    sound = [one for one in judged.values() if one.is_sound]
    timed = [one for one in sound if one.time_ratio is not None]
    if timed and own.time_ratio is not None:
        best = min(timed, key=lambda one: (one.time_ratio, -one.resident_warps))
        assert best.time_ratio is not None
        gain = own.time_ratio / best.time_ratio - 1
        return Standing(today=own, best=best, gain=gain, is_timed=True) if gain > TIE else _kept(own, is_timed=True)
    if not sound:
        return _kept(own, is_timed=False)
    least = min(one.slowdown for one in sound)
    # Of those that the model cannot tell apart: today's, else the one with most warps to hide what the model does not know.
    close = [one for one in sound if one.slowdown <= least * (1 + TIE)]
    if own in close:
        return _kept(own, is_timed=False)
    best = max(close, key=lambda one: (one.resident_warps, -one.slowdown))
    gain = own.slowdown / best.slowdown - 1 if own.is_sound else float("inf")
    return Standing(today=own, best=best, gain=gain, is_timed=False)


def _kept(own: Judged, *, is_timed: bool) -> Standing:
    return Standing(today=own, best=own, gain=0.0, is_timed=is_timed)


def why(standing: Standing) -> str:
    """Return in words what today's launch waits for, and what the best one has instead."""
    today, best = standing.today.worst, standing.best.worst
    if today.broken:
        return today.broken[0]
    was = _state(today, today.bound)
    return was if standing.best is standing.today else f"{was}; best {_state(best, today.bound)}"


def _state(one: Estimate, bound: Bound) -> str:
    match bound:
        case Bound.LATENCY:
            held = f"{one.resident_programs:.3g} programs of {one.registers} registers"
            return f"{one.in_flight_bytes / 1024:.3g} KiB in flight ({held})"
        case Bound.ISSUE:
            return f"{one.instructions_per_element:.3g} instructions an element"
        case Bound.TRAFFIC:
            return f"{one.traffic:.3g} times the fewest bytes"


def survivors(judged: Mapping[Candidate, Judged], today: Candidate, count: int) -> Sequence[Candidate]:
    """Return today's candidate and the `count` best others that keep every budget, by the model."""
    others = sorted((one for one in judged.values() if one.is_sound and one.candidate != today), key=_by_model)
    return [today, *(one.candidate for one in others[:count])]


def _by_model(one: Judged) -> tuple[float, float]:
    return one.slowdown, -one.resident_warps
