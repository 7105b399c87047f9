"""The tables of a sweep as rows of text: the arms of a company, those side by side, and every batch that was tried."""

from __future__ import annotations

from ..quantities.stats import Interval
from ..quantities.units import DASH, bytes_text, interval_text, number, ratio_text
from .entry import Point, SideBySide, Verdict
from .summary import ArmSummary, CompanySummary

__all__ = ["ARM_COLUMNS", "BATCH_COLUMNS", "SIDE_COLUMNS", "arm_rows", "batch_rows", "reference_of", "said_of", "side_rows"]

ARM_COLUMNS = ("norm", "provider", "largest batch", "tokens/s there", "peak memory there", "best tokens/s", "at batch", "how sure")
SIDE_COLUMNS = ("norm", "provider", "tokens/s", "times as fast")
BATCH_COLUMNS = ("norm", "provider", "batch", "verdict", "tokens/s", "peak memory")

_REFERENCES = ("layer_norm:aten", "layer_norm:eager", "rms_norm:aten")
"""What others are compared with side by side, the first of these that is there: PyTorch's own LayerNorm before all."""


def arm_rows(company: CompanySummary) -> list[tuple[str, ...]]:
    """Return a row for each arm, in `ARM_COLUMNS`."""
    return [(*_named(one), *_largest(one), *_best(one), one.standing) for one in company.arms]


def _named(one: ArmSummary) -> tuple[str, str]:
    return one.arm.case.norm_label, one.arm.provider


def _largest(one: ArmSummary) -> tuple[str, str, str]:
    point = one.largest
    if point is None or one.contradiction is not None:
        return DASH, DASH, DASH
    # Without a batch that did not fit, the largest that did is no more than a lower bound.
    bound = "" if one.smallest_failed is not None else "\u2265 "
    return f"{bound}{point.batch}", _rate(point.tokens_per_s), _peak(point)


def _best(one: ArmSummary) -> tuple[str, str]:
    point = one.best
    return (DASH, DASH) if point is None else (_rate(point.tokens_per_s), str(point.batch))


def _rate(found: Interval) -> str:
    return f"{number(found.estimate)} {interval_text(found)}"


def _peak(point: Point) -> str:
    return DASH if point.peak_bytes is None else bytes_text(point.peak_bytes)


def reference_of(found: SideBySide) -> str:
    """Return the arm that the others are compared with."""
    return next((name for name in _REFERENCES if name in found.samples_s), next(iter(found.samples_s)))


def side_rows(company: CompanySummary) -> list[tuple[str, ...]]:
    """Return a row for each arm that took turns, in `SIDE_COLUMNS`; none where none did."""
    found = company.side_by_side
    if found is None or not found.samples_s:
        return []
    reference = reference_of(found)
    rows: list[tuple[str, ...]] = []
    for name in found.samples_s:
        speed_up = "1 (reference)" if name == reference else ratio_text(found.speed_up(name, reference))
        norm, _, provider = name.partition(":")
        rows.append((norm, provider, _rate(found.tokens_per_s(name)), speed_up))
    return rows


def batch_rows(company: CompanySummary) -> list[tuple[str, ...]]:
    """Return a row for each batch of each arm that was tried, in `BATCH_COLUMNS`."""
    return [(*_named(one), str(point.batch), *_batch(point)) for one in company.arms for point in one.points]


def _batch(point: Point) -> tuple[str, str, str]:
    if point.verdict is not Verdict.FITS:
        return point.verdict.value.replace("_", " "), DASH, DASH
    return "fits", _rate(point.tokens_per_s), _peak(point)


def said_of(point: Point) -> str:
    """Return what became of a batch, in a few words, e.g. `fits, 1234 tokens/s (1200-1260), 363 MiB`."""
    verdict, rate, peak = _batch(point)
    if point.verdict is Verdict.FITS:
        return f"fits, {rate.replace(' ', ' tokens/s ', 1)}, {peak}"
    return verdict if point.verdict is Verdict.OUT_OF_MEMORY else f"{verdict}: {point.reason}"
