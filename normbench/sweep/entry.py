"""What a sweep finds out, entry by entry: an arm checked, a batch tried, arms side by side. To and from one line of JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import log
from statistics import median

import msgspec

from ..quantities.stats import RATIO_WIDENING, TIME_WIDENING, Interval, log_interval
from ..records.record import Status

__all__ = ["Check", "Entry", "Point", "SideBySide", "Verdict", "is_sound"]


class Verdict(StrEnum):
    """Say how a batch went: every process had memory enough, one had not, or one failed for another reason."""

    FITS = "fits"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"


class Check(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="check"):
    """Hold how the check of an arm against float64 ended; only one that is `ok` is swept."""

    arm: str
    status: Status
    reason: str | None = None


class Point(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="point"):
    """Hold what became of an arm by itself at one batch.

    `samples_s` has one list of seconds per call for each process, `tokens` is what one call trains on, reads or writes, `peak_bytes`
    the most memory that one of the processes held. A verdict other than `fits` has a reason, and no samples.
    """

    arm: str
    batch: int
    verdict: Verdict
    reason: str | None = None
    tokens: int
    samples_s: tuple[tuple[float, ...], ...] = ()
    peak_bytes: int | None = None

    @property
    def tokens_per_s(self) -> Interval:
        """Return tokens per second with the interval over processes. For a batch that fits."""
        return _rate(self.tokens, self.samples_s)


class SideBySide(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="side_by_side"):
    """Hold arms that took turns in the same processes at a batch at which each of them fits.

    `company` is what they have in common, `samples_s` has a list for each process by arm. `tried` are the larger batches at which they
    did not fit side by side. Where they could not be measured there is a `reason`, and no samples.
    """

    company: str
    batch: int
    tokens: int
    samples_s: dict[str, tuple[tuple[float, ...], ...]] = {}
    tried: tuple[int, ...] = ()
    reason: str | None = None

    def tokens_per_s(self, arm: str) -> Interval:
        """Return an arm's tokens per second with the interval over processes."""
        return _rate(self.tokens, self.samples_s[arm])

    def speed_up(self, arm: str, reference: str) -> Interval:
        """Return tokens per second of an arm over those of another, by a ratio from each process."""
        logs = [log(median(below) / median(above)) for above, below in zip(self.samples_s[arm], self.samples_s[reference], strict=True)]
        return log_interval(logs, "process", widening=RATIO_WIDENING)


Entry = Check | Point | SideBySide


def is_sound(entries: Sequence[Entry]) -> bool:
    """Say whether every arm that was swept is right, and no batch failed for another reason than memory."""
    broken = (Status.WRONG, Status.ERROR)
    return not any(
        (isinstance(one, Check) and one.status in broken) or (isinstance(one, Point) and one.verdict is Verdict.FAILED) for one in entries
    )


def _rate(tokens: int, samples_s: Sequence[Sequence[float]]) -> Interval:
    return log_interval([log(tokens / median(samples)) for samples in samples_s], "process", widening=TIME_WIDENING)
