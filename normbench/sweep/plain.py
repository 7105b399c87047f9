"""A sweep as plain values for JSON: what was found of each arm, numbers unrounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .entry import Entry, Point, SideBySide, Verdict
from .journal import Header
from .summary import ArmSummary, summarise
from .table import reference_of

__all__ = ["plain_sweep"]


def plain_sweep(header: Header, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the limit and the companies of arms, each with every batch that was tried."""
    companies = [
        {"title": company.title, "arms": [_arm(one) for one in company.arms], "side_by_side": _side_by_side(company.side_by_side)}
        for company in summarise(header.question, entries)
    ]
    return {"limit": msgspec.to_builtins(header.limit), "companies": companies}


def _arm(one: ArmSummary) -> dict[str, Any]:
    largest, unfit, best = one.largest, one.smallest_failed, one.best
    return {
        "norm": one.arm.case.norm_label,
        "provider": one.arm.provider,
        "largest": None if largest is None or one.contradiction is not None else _point(largest),
        "smallest_failed": None if unfit is None else unfit.batch,
        "best": None if best is None else _point(best),
        "standing": one.standing,
        "points": [_point(point) for point in one.points],
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "batch": point.batch,
        "verdict": point.verdict.value,
        "reason": point.reason,
        "tokens_per_s": msgspec.to_builtins(point.tokens_per_s) if point.verdict is Verdict.FITS else None,
        "peak_bytes": point.peak_bytes,
    }


def _side_by_side(found: SideBySide | None) -> dict[str, Any] | None:
    if found is None:
        return None
    arms = {}
    if found.samples_s:
        reference = reference_of(found)
        arms = {
            name: {"tokens_per_s": found.tokens_per_s(name), "times_as_fast": found.speed_up(name, reference)} for name in found.samples_s
        }
    return {
        "batch": found.batch,
        "tried": list(found.tried),
        "reason": found.reason,
        "reference": reference_of(found) if found.samples_s else None,
        "arms": msgspec.to_builtins(arms),
    }
