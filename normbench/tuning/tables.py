"""What the tuner found, as rows of text and as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..cases.case import DType, Pass
from ..text.markdown import escape, table
from .ranking import Judged, Standing, why

__all__ = ["COLUMNS", "Finding", "markdown_of", "row_of"]

COLUMNS = ("pass", "dtype", "cols", "arch", "today", "x floor", "best", "x floor", "today's is", "why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Hold where today's launch stands for one direction, dtype and width on one architecture, or on all of them at once."""

    direction: Pass
    dtype: DType
    cols: int
    arch: str
    standing: Standing


def row_of(found: Finding) -> tuple[str, ...]:
    """Return a finding as text, in the order of COLUMNS."""
    standing = found.standing
    is_kept = standing.best is standing.today
    return (
        found.direction.value,
        found.dtype.value,
        str(found.cols),
        found.arch,
        standing.today.candidate.text,
        _floor_text(standing.today),
        "the same" if is_kept else standing.best.candidate.text,
        "" if is_kept else _floor_text(standing.best),
        _gain_text(standing),
        why(standing),
    )


def _floor_text(judged: Judged) -> str:
    return "broken" if not judged.is_sound else f"{judged.slowdown:.2f}"


def _gain_text(standing: Standing) -> str:
    if standing.best is standing.today:
        return "best"
    if not standing.today.is_sound:
        return "broken"
    return f"{100 * standing.gain:.0f} % slower {'by the clock' if standing.is_timed else 'by the model'}"


def markdown_of(findings: Sequence[Finding], versions: Mapping[str, str]) -> str:
    """Return findings as a Markdown table under a line that says what compiled them."""
    compilers = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [f"Compiled by {escape(compilers)}.", "", *table(COLUMNS, map(row_of, findings), align="l")]
    return "\n".join(lines) + "\n"
