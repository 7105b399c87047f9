"""What the gate promises and how it spends it: margin, error rate, looks. Pure."""

from __future__ import annotations

from math import ceil, log2

import msgspec

from ..errors import UsageError

__all__ = ["MAX_BLOCKS", "Policy", "Thresholds", "require_attainable", "thresholds"]

MIN_BLOCKS = 4
"""Of fewer blocks none may be put aside as the odd one out."""
MAX_BLOCKS = 40
"""All 2^40 sign flips are counted in a fifth of a second from two sorted halves; more blocks than that decide nothing more."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the rule of a gate. Shares are fractions: 0.02 is 2 %.

    `margin`: a case is slower, or faster, only if the estimate is beyond this.
    `bias`: a difference that two copies of the same code may have for a whole run, because each copy has one place in memory;
    significance is significance against it, not against nothing. A quarter of the margin, at most 0.5 %, when not given.
    `error_rate`: the probability that a run of all cases calls any change, slower or faster, where there is none beyond the bias.
    `miss_rate`: the probability that a case slower by just the margin passes before the last look.
    `looks`: the numbers of blocks at which a case is judged. At the last one it is judged for good.
    `detectable`: a case where the smallest change found with probability `power` is larger than this is not gateable. Twice the
    margin, at least 5 %, when not given.

    Raises UsageError for values that make no rule.
    """

    margin: float = 0.02
    bias: float = None  # type: ignore[assignment]  # set below from the margin
    error_rate: float = 0.01
    miss_rate: float = 0.01
    looks: tuple[int, ...] = (8, 12, 18, 26)
    detectable: float = None  # type: ignore[assignment]  # set below from the margin
    power: float = 0.9

    def __post_init__(self) -> None:
        _require(0 < self.margin < 0.5, "margin", self.margin, "give a share below a half, such as 0.02 for 2 %")
        if self.bias is None:
            msgspec.structs.force_setattr(self, "bias", min(0.005, self.margin / 4))
        if self.detectable is None:
            msgspec.structs.force_setattr(self, "detectable", max(0.05, 2 * self.margin))
        _require(0 <= self.bias < self.margin, "bias", self.bias, f"give a share from 0 to below the margin, {self.margin:g}")
        _require(0 < self.error_rate <= 0.5, "error rate", self.error_rate, "give a probability above 0, at most 0.5, such as 0.01")
        _require(0 < self.miss_rate <= 0.5, "miss rate", self.miss_rate, "give a probability above 0, at most 0.5, such as 0.01")
        _require(self.margin <= self.detectable < 1, "detectable", self.detectable, f"give a share from the margin, {self.margin:g}, to 1")
        _require(0.5 <= self.power < 1, "power", self.power, "give a probability from 0.5 to below 1, such as 0.9")
        rising = all(type(look) is int for look in self.looks) and list(self.looks) == sorted(set(self.looks))
        within = bool(self.looks) and rising and self.looks[0] >= MIN_BLOCKS and self.looks[-1] <= MAX_BLOCKS
        _require(within, "looks", self.looks, f"give rising numbers of blocks from {MIN_BLOCKS} to {MAX_BLOCKS}, such as (8, 12, 18, 26)")


def _require(holds: bool, name: str, value: object, remedy: str) -> None:
    if not holds:
        raise UsageError(f"the gate's {name} cannot be {value!r}: {remedy}")


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what each look may spend on one case: p below `change` calls a change; `passing` is the level of an early pass.

    `change` is 0 at looks that spend nothing.
    """

    change: tuple[float, ...]
    passing: float


def thresholds(policy: Policy, cases: int) -> Thresholds:
    """Share the error rate out: half to each direction, then evenly to cases and to the looks that can use it.

    By Bonferroni's inequality the error rate then holds whatever the dependence among cases and looks, and however many blocks each
    case gets. n blocks have 2^n sign patterns, so no p is below 2^-n: a first look that cannot reach its share is left out of the
    sharing, and can only pass. This depends on the policy and the number of cases alone, not on data.

    Raises UsageError when no look can reach its share: such a gate could never turn red.
    """
    if cases < 1:
        raise UsageError(f"the gate cannot judge {cases} cases: name at least one case that both sides have")
    per_case = policy.error_rate / 2 / cases
    for skipped, look in enumerate(policy.looks):
        share = per_case / (len(policy.looks) - skipped)
        if 2.0**-look <= share:
            change = (0.0,) * skipped + (share,) * (len(policy.looks) - skipped)
            return Thresholds(change=change, passing=policy.miss_rate / max(1, len(policy.looks) - 1))
    needed = ceil(log2(1 / per_case))
    raise UsageError(
        f"with {cases} cases and an error rate of {policy.error_rate:g} this gate could never turn red: "
        f"{policy.looks[-1]} blocks give no p below {2.0 ** -policy.looks[-1]:.2g}, and {per_case:.2g} is needed; "
        + (f"let the last look have at least {needed} blocks" if needed <= MAX_BLOCKS else "gate fewer cases or allow a larger error rate")
    )


def require_attainable(policy: Policy, cases: int) -> None:
    """Raise UsageError when the smallest p that the last look can show is not below the threshold for so many cases."""
    thresholds(policy, cases)
