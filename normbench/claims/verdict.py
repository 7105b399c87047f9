"""From a claim and what was found here to one verdict with its reason. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import inf, isfinite

import msgspec

from ..errors import NormbenchError
from ..published import Band, Claim
from ..quantities.units import join_words

__all__ = ["Bound", "Measured", "Ruling", "Value", "Verdict", "judge"]


class Verdict(StrEnum):
    """Say how a published claim fares here.

    exact, wrong: deterministic figures agree to the printed digits, or do not. reproduced: every judged figure agrees within its interval.
    opposite: a figure lies on the other side altogether. bounded_out: what the claim needs is impossible here, by a bound. other_scope: the
    claim's own scope is not here; what was found nearby stands beside it. not_reproduced: measured here, and none of these.
    """

    EXACT = "exact"
    WRONG = "wrong"
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    OPPOSITE = "opposite"
    BOUNDED_OUT = "bounded out"
    OTHER_SCOPE = "other scope"


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one figure found here, with its 95 % interval where there is one; a result without a number is a word, such as NaN.

    A figure of several cases has each of them, by name, in `cases`: it agrees where each of them does, and its interval is their span.
    """

    estimate: float | str
    low: float | None = None
    high: float | None = None
    note: str = ""
    cases: dict[str, Value] = {}

    @classmethod
    def over(cls, cases: dict[str, Value]) -> Value:
        """Return the figure of several cases, all of them numbers: the estimate is the middle one's, the interval the span of theirs."""
        if len(cases) == 1:
            return next(iter(cases.values()))
        spans = [one.span for one in cases.values() if one.span is not None]
        ordered = sorted(float(one.estimate) for one in cases.values())
        return cls(
            estimate=ordered[len(ordered) // 2],
            low=min(low for low, _ in spans),
            high=max(high for _, high in spans),
            note=join_words(f"{name} {float(one.estimate):.1f}" for name, one in cases.items()),
            cases=cases,
        )

    @property
    def each(self) -> tuple[Value, ...]:
        """Return the figures that are judged: those of the cases, or the only one."""
        return tuple(self.cases.values()) or (self,)

    @property
    def span(self) -> Band | None:
        """Return the interval, the estimate alone without one, or None for a word."""
        if isinstance(self.estimate, str):
            return None
        if self.low is None or self.high is None:
            return self.estimate, self.estimate
        return self.low, self.high

    @property
    def text(self) -> str:
        """Return the figure with its interval, e.g. `0.4475` or `2.004 (1.958 to 2.05)`."""
        if isinstance(self.estimate, str):
            return self.estimate
        if self.low is None or self.high is None:
            return f"{self.estimate:.6g}"
        return f"{self.estimate:.4g} ({self.low:.4g} to {self.high:.4g})"


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Say in which range a figure can lie here at all, and why."""

    name: str
    least: float = -inf
    most: float = inf
    text: str

    def excludes(self, band: Band) -> bool:
        """Say whether no value of the band is possible."""
        return band[1] < self.least or band[0] > self.most


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what an evaluator found: figures by name, where and how, and bounds on some of them."""

    values: dict[str, Value]
    where: str
    bounds: tuple[Bound, ...] = ()


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a verdict and the reason for it.

    Without a verdict the reason says what the claim waits for, or that what was found is too unsure: its interval holds agreement and
    contradiction both.
    """

    verdict: Verdict | None
    reason: str


def judge(claim: Claim, measured: Measured | None, *, unmet: Sequence[str] = (), waits: str = "") -> Ruling:
    """Return the ruling on a claim.

    `unmet` says which parts of its own scope are not here, `waits` why nothing was measured where `measured` is None. Raises
    NormbenchError where the evaluator did not yield a figure that the claim judges.
    """
    if measured is None:
        if unmet:
            return Ruling(verdict=Verdict.OTHER_SCOPE, reason="; ".join([*unmet, *([f"the nearest scope here: {waits}"] if waits else [])]))
        assert waits, "a claim that was not measured says why"
        return Ruling(verdict=None, reason=waits)
    bands = claim.bands()
    if missing := [name for name in bands if name not in measured.values]:
        raise NormbenchError(f"claim {claim.id}: {claim.evaluator} yields no {missing[0]!r}, only {', '.join(measured.values)}")
    if claim.kind == "exact":
        return _exact(claim, measured, bands)
    excluded = [bound.text for bound in measured.bounds if bound.name in bands and bound.excludes(bands[bound.name])]
    if unmet:
        if excluded:
            return Ruling(verdict=Verdict.BOUNDED_OUT, reason="; ".join([*excluded, *unmet]))
        return Ruling(verdict=Verdict.OTHER_SCOPE, reason="; ".join(unmet))
    contradicted = [name for name, band in claim.opposite.items() if _is_inside(measured.values[name], band)]
    if contradicted:
        texts = [f"{_shown(name, measured.values[name])}, on the other side" for name in contradicted]
        return Ruling(verdict=Verdict.OPPOSITE, reason="; ".join([*texts, *excluded]))
    if excluded:
        return Ruling(verdict=Verdict.BOUNDED_OUT, reason="; ".join(excluded))
    if both := [
        name
        for name, band in claim.opposite.items()
        if _meets(measured.values[name], bands[name]) and _reaches(measured.values[name], band)
    ]:
        texts = [f"{_shown(name, measured.values[name])}, agrees and contradicts" for name in both]
        return Ruling(verdict=None, reason="; ".join([f"cannot be told: {text}" for text in texts]))
    off = [name for name, band in bands.items() if not _meets(measured.values[name], band)]
    if off:
        return Ruling(verdict=Verdict.NOT_REPRODUCED, reason="; ".join(_misses(name, measured.values[name], bands[name]) for name in off))
    return Ruling(verdict=Verdict.REPRODUCED, reason="; ".join(_shown(name, measured.values[name]) for name in bands))


def _exact(claim: Claim, measured: Measured, bands: dict[str, Band]) -> Ruling:
    wrong = [_misses(name, measured.values[name], band) for name, band in bands.items() if not _is_inside(measured.values[name], band)]
    words = {name: text for name, text in claim.published.items() if isinstance(text, str) and name not in bands}
    wrong += [
        f"{name} is {measured.values[name].estimate}, published {text}"
        for name, text in words.items()
        if name in measured.values and measured.values[name].estimate != text
    ]
    if not bands and not any(name in measured.values for name in words):
        raise NormbenchError(f"claim {claim.id}: {claim.evaluator} yields none of its figures")
    if wrong:
        return Ruling(verdict=Verdict.WRONG, reason="; ".join(wrong))
    names = [*bands, *(name for name in words if name in measured.values)]
    return Ruling(verdict=Verdict.EXACT, reason="; ".join(_shown(name, measured.values[name]) for name in names))


def _meets(value: Value, band: Band) -> bool:
    """Say whether the interval and the band have a point in common, that of each case where there are several."""
    return all(one.span is not None and one.span[0] <= band[1] and one.span[1] >= band[0] for one in value.each)


def _reaches(value: Value, band: Band) -> bool:
    """Say whether the interval, or that of any case, has more than an end in common with the band."""
    return any(one.span is not None and one.span[0] < band[1] and one.span[1] > band[0] for one in value.each)


def _is_inside(value: Value, band: Band) -> bool:
    return all(one.span is not None and band[0] <= one.span[0] and one.span[1] <= band[1] for one in value.each)


def _shown(name: str, value: Value) -> str:
    return f"{name} is {value.text}" + (f", {value.note}" if value.note else "")


def _misses(name: str, value: Value, band: Band) -> str:
    if all(map(isfinite, band)):
        wanted = f"{band[0]:.6g} to {band[1]:.6g}" if band[0] != band[1] else f"{band[0]:.6g}"
    else:
        wanted = f"at least {band[0]:.6g}" if isfinite(band[0]) else f"at most {band[1]:.6g}"
    off = {case: one for case, one in value.cases.items() if not _meets(one, band)}
    if len(off) < len(value.cases):
        return f"{name} is {value.text}; not {wanted}: {join_words(f'{case} {one.text}' for case, one in off.items())}"
    return f"{_shown(name, value)}, not {wanted}"
