"""From the log ratios of blocks to a verdict on one case. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import exp, expm1, isfinite, log, log1p, sqrt
from statistics import fmean, median

import msgspec
from scipy.special import stdtrit

from ..cases.metric import Better
from ..quantities.units import percent, percent_given
from .flips import Location, flip_p, locate, shift_found
from .policy import Policy, thresholds

__all__ = ["Decision", "Supply", "Verdict", "block_log", "decide", "decide_once", "detectable_slowdown", "log_ratio"]

LEVEL = 0.95
LARGEST_LOG = 700.0
"""Beyond it the ratio is not a finite number."""


class Supply(StrEnum):
    """Say whether more blocks can come: `closed` when the budget is out, so that the case is judged for good on what there is."""

    OPEN = "open"
    CLOSED = "closed"


class Verdict(StrEnum):
    """Say how a case ended. `undecided` is no end: the case needs more blocks."""

    PASS = "pass"
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NOT_GATEABLE = "not gateable"
    NOT_COMPARABLE = "not comparable"
    MISSING = "missing"
    NEW = "new"
    WRONG = "wrong"
    FAILED = "failed"
    UNDECIDED = "undecided"

    @property
    def is_compared(self) -> bool:
        """Say whether head and base were compared and the comparison could have shown a change."""
        return self in (Verdict.PASS, Verdict.REGRESSION, Verdict.IMPROVEMENT)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a verdict on one case and what it rests on; what was not computed is null.

    `ratio`, `low` and `high` are head / base of the metric itself, so above 1 is slower for a time and faster for a throughput. The
    interval is Student's of the trimmed mean over blocks, at `level`, for display: it is not what decides. `blocks` is how many blocks
    it was decided on. `p` is exact and one-sided, in the direction of the estimate, against the policy's bias, and called a change
    at `threshold` or below. `spread` is the standard deviation of a block's log ratio. `smallest_detectable` is the
    smallest slow-down (0.02: 2 %) that would be found at the last look, on the blocks there will be then.
    """

    verdict: Verdict
    reason: str
    blocks: int = 0
    better: Better = Better.LESS
    next_look: int | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = LEVEL
    p: float | None = None
    threshold: float | None = None
    spread: float | None = None
    smallest_detectable: float | None = None

    @property
    def worsening(self) -> float | None:
        """Return the log of the ratio with the sign that makes worse positive, whichever way the metric is good."""
        return None if self.ratio is None else self.better.cost_sign * log(self.ratio)


def log_ratio(head: Sequence[float], base: Sequence[float]) -> float | None:
    """Return log(median head / median base) of one repetition's samples, or None when the two cannot be compared.

    They cannot when either is empty or holds a value that is zero, negative, infinite or NaN.
    """
    for samples in (head, base):
        if not samples or not all(isfinite(sample) and sample > 0 for sample in samples):
            return None
    # Two logs: the quotient of two finite numbers may be neither finite nor above zero.
    return log(median(head)) - log(median(base))


def block_log(repetitions: Sequence[float | None]) -> float | None:
    """Return the mean of a block's repetitions, or None when there is none or one of them cannot be compared."""
    known = [value for value in repetitions if value is not None]
    return fmean(known) if known and len(known) == len(repetitions) else None


def decide(
    policy: Policy, logs: Sequence[float | None], *, cases: int, better: Better = Better.LESS, supply: Supply = Supply.OPEN
) -> Decision:
    """Judge one case on one log(head / base) per block, in the order they were taken.

    `cases` is how many cases the error rate is shared by, controls included, the same number for all cases and looks of a run. The
    looks that have been reached are gone through in order, each seeing its blocks alone, and the first verdict stands: the same
    blocks give the same verdict whenever, and however often, this is asked. With `supply` closed, a case that no look has decided
    is judged for good on all its blocks up to the last look's number; what is left of its error is enough for that, as the number of
    blocks is set by the clock.

    Raises UsageError when no look could ever call a change (see `thresholds`).
    """
    limits = thresholds(policy, cases)
    if odd := _odd(logs, better):
        return odd
    costs = [better.cost_sign * value for value in logs if value is not None]
    for look, limit in zip(policy.looks[:-1], limits.change[:-1], strict=True):
        if look <= len(costs):
            early = _at_look(policy, costs[:look], limit, limits.passing)
            if early is not None:
                return _described(policy, costs[:look], *early, cases=cases, limit=limit, better=better)
    if len(costs) >= policy.looks[-1] or supply is Supply.CLOSED:
        return decide_once(policy, logs, cases=cases, better=better)
    following = next(look for look in policy.looks if look > len(costs))
    reason = f"needs {following} blocks, has {len(costs)}"
    undecided = _described(policy, costs, Verdict.UNDECIDED, reason, cases=cases, limit=None, better=better)
    return msgspec.structs.replace(undecided, next_look=following)


def decide_once(policy: Policy, logs: Sequence[float | None], *, cases: int, better: Better = Better.LESS) -> Decision:
    """Judge one case for good on all its blocks up to the last look's number, without looking before.

    For controls: what `decide` lets pass at an early look may move afterwards, and a control has to vouch for the whole run.
    """
    limit = thresholds(policy, cases).change[-1]
    if odd := _odd(logs, better):
        return odd
    costs = [better.cost_sign * value for value in logs[: policy.looks[-1]] if value is not None]
    verdict, reason = _for_good(policy, costs, cases)
    return _described(policy, costs, verdict, reason, cases=cases, limit=limit, better=better)


def _odd(logs: Sequence[float | None], better: Better) -> Decision | None:
    """Return the decision that a block without a ratio makes, if there is one."""
    for number, value in enumerate(logs, 1):
        if value is None or not isfinite(value):
            reason = f"block {number} has a time or rate that is empty, zero, negative, infinite or not a number"
            return Decision(verdict=Verdict.NOT_COMPARABLE, reason=reason, blocks=len(logs), better=better)
    return None


def detectable_slowdown(policy: Policy, *, cases: int, spread: float, blocks: int) -> float | None:
    """Return the smallest slow-down (0.02: 2 %) that the last judgement finds with the policy's power on so many blocks.

    `spread` is the standard deviation of a block's log ratio. A slow-down is found when it is significant and its estimate is beyond
    the margin, so the larger of what either needs. None when so few blocks can show no change at all, however large.
    """
    shift = shift_found(blocks, thresholds(policy, cases).change[-1], policy.power)
    if not isfinite(shift):
        return None
    seen = log1p(policy.margin) + float(stdtrit(blocks - 1, policy.power)) * spread / sqrt(blocks)
    needed = max(seen, log1p(policy.bias) + shift * spread)
    return expm1(needed) if needed < LARGEST_LOG else None


def _change(policy: Policy, costs: Sequence[float], location: Location, limit: float) -> tuple[Verdict, str] | None:
    """Return the change that the costs show at this threshold, if any."""
    for sign, verdict, word in ((1, Verdict.REGRESSION, "worse"), (-1, Verdict.IMPROVEMENT, "better")):
        if sign * location.centre > log1p(policy.margin) and _p(policy, costs, sign) <= limit:
            return verdict, f"{word} by more than {percent_given(policy.margin)}"
    return None


def _p(policy: Policy, costs: Sequence[float], sign: int) -> float:
    return flip_p([sign * cost - log1p(policy.bias) for cost in costs])


def _at_look(policy: Policy, costs: Sequence[float], limit: float, passing: float) -> tuple[Verdict, str] | None:
    """Return what can be said before the last look: a change, or a pass when both ends of the interval are within the margin."""
    location = locate(costs)
    if limit > 0 and (change := _change(policy, costs, location, limit)):
        return change
    if abs(location.centre) + location.half_width(passing) < log1p(policy.margin):
        return Verdict.PASS, "any change is within the margin"
    return None


def _for_good(policy: Policy, costs: Sequence[float], cases: int) -> tuple[Verdict, str]:
    """Return the last word on these blocks."""
    if len(costs) < 4:
        return Verdict.NOT_GATEABLE, f"{len(costs)} blocks are too few to judge; give it more time"
    location = locate(costs)
    if change := _change(policy, costs, location, thresholds(policy, cases).change[-1]):
        return change
    if location.centre + location.half_width(policy.miss_rate) < log1p(policy.margin):
        return Verdict.PASS, "any slow-down is within the margin"
    found = detectable_slowdown(policy, cases=cases, spread=location.spread, blocks=len(costs))
    if found is None:
        return Verdict.NOT_GATEABLE, f"{len(costs)} blocks can show no change at this error rate; give it more time"
    if location.centre >= log1p(found):
        # Were the blocks as they seem, this would have been significant: some of them say the opposite.
        return Verdict.NOT_GATEABLE, f"blocks contradict each other: worse by {percent(expm1(location.centre))} in most, not in all"
    if found > policy.detectable:
        return Verdict.NOT_GATEABLE, f"too noisy: a slow-down below {percent(found)} could go unseen"
    return Verdict.PASS, "no change shown"


def _described(
    policy: Policy, costs: Sequence[float], verdict: Verdict, reason: str, *, cases: int, limit: float | None, better: Better
) -> Decision:
    """Return the decision with the figures that these costs allow."""
    if len(costs) < 4:
        return Decision(verdict=verdict, reason=reason, blocks=len(costs), better=better)
    location = locate(costs)
    half = location.half_width((1 - LEVEL) / 2)
    ends = sorted(better.cost_sign * (location.centre + side * half) for side in (-1, 1))
    planned = len(costs) if verdict is Verdict.NOT_GATEABLE else policy.looks[-1]
    return Decision(
        verdict=verdict,
        reason=reason,
        blocks=len(costs),
        better=better,
        ratio=_ratio(better.cost_sign * location.centre),
        low=_ratio(ends[0]),
        high=_ratio(ends[1]),
        p=_p(policy, costs, 1 if location.centre >= 0 else -1),
        threshold=limit,
        spread=location.spread,
        smallest_detectable=detectable_slowdown(policy, cases=cases, spread=location.spread, blocks=planned),
    )


def _ratio(value: float) -> float | None:
    return exp(value) if abs(value) < LARGEST_LOG else None
