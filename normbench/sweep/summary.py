"""What a sweep's entries say of each arm: the largest batch that fits, the rate there and the best one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..records.record import Status
from .entry import Check, Entry, Point, SideBySide, Verdict
from .question import Arm, Question, title_of
from .search import End

__all__ = ["ArmSummary", "CompanySummary", "summarise"]


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what was found of one arm.

    `points` are its batches in order of size. `end` is None where the search was cut short. `refusal` says why an arm was not swept,
    or where a batch failed for another reason than memory.
    """

    arm: Arm
    points: tuple[Point, ...]
    end: End | None
    contradiction: str | None = None
    refusal: str | None = None

    @property
    def largest(self) -> Point | None:
        """Return the largest batch that fits, or None."""
        return max(self._fitting, key=lambda point: point.batch, default=None)

    @property
    def smallest_failed(self) -> Point | None:
        """Return the smallest batch that did not fit, or None."""
        unfit = (point for point in self.points if point.verdict is Verdict.OUT_OF_MEMORY)
        return min(unfit, key=lambda point: point.batch, default=None)

    @property
    def best(self) -> Point | None:
        """Return the batch with the most tokens per second, or None."""
        return max(self._fitting, key=lambda point: point.tokens_per_s.estimate, default=None)

    @property
    def _fitting(self) -> list[Point]:
        return [point for point in self.points if point.verdict is Verdict.FITS]

    @property
    def standing(self) -> str:
        """Return how sure the largest batch is, in words."""
        largest, unfit = self.largest, self.smallest_failed
        if self.refusal is not None:
            return self.refusal
        if self.contradiction is not None:
            return f"{self.contradiction}: memory alone does not decide, so no largest batch is named"
        if self.end is None:
            return "cut short before the largest batch was found"
        if self.end is End.CAPPED:
            return f"the largest that was to be tried; one of {largest.batch if largest else 0} fits, and larger ones may"
        assert unfit is not None, self.arm
        if largest is None:
            return f"not even batch {unfit.batch} fits"
        if unfit.batch == largest.batch + 1:
            return "exact"
        return f"{unfit.batch} does not fit; between them nothing was tried"


class CompanySummary(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what was found of arms that differ in norm and provider only."""

    title: str
    arms: tuple[ArmSummary, ...]
    side_by_side: SideBySide | None = None


def summarise(question: Question, entries: Sequence[Entry]) -> tuple[CompanySummary, ...]:
    """Return what the entries say, in the order of the question."""
    beside = {one.company: one for one in entries if isinstance(one, SideBySide)}
    return tuple(
        CompanySummary(
            title=title_of(arms[0].case),
            arms=tuple(_summary(question, arm, entries) for arm in arms),
            side_by_side=beside.get(company),
        )
        for company, arms in question.companies.items()
    )


def _summary(question: Question, arm: Arm, entries: Sequence[Entry]) -> ArmSummary:
    key = arm.key
    check = next((one for one in entries if isinstance(one, Check) and one.arm == key), None)
    points = sorted((one for one in entries if isinstance(one, Point) and one.arm == key), key=lambda point: point.batch)
    search = question.search()
    for point in points:
        if point.verdict is not Verdict.FAILED:
            search.tell(point.batch, point.verdict is Verdict.FITS)
    refusal = None
    if check is not None and check.status is not Status.OK:
        refusal = f"not swept, {check.status.value}: {check.reason}"
    elif failed := next((point for point in points if point.verdict is Verdict.FAILED), None):
        refusal = f"batch {failed.batch} failed, and not for lack of memory: {failed.reason}"
    return ArmSummary(arm=arm, points=tuple(points), end=search.end, contradiction=search.contradiction, refusal=refusal)
