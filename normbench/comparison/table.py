"""Two runs as a table: rows of text for a terminal, most urgent first, and the whole as Markdown. Pure."""

from __future__ import annotations

from collections import Counter

from ..cases.metric import Better
from ..quantities.units import DASH, duration, join_words, number, percent
from ..text.markdown import escape, table
from .difference import Difference, Verdict
from .outcome import Comparison, Side
from .rows import Row, TierDrift

__all__ = ["columns", "lines_below", "markdown", "rows"]

_ORDER = list(Verdict)
_WITHOUT_REASON = (Verdict.SLOWER, Verdict.FASTER, Verdict.NO_DIFFERENCE)
"""Verdicts that the figures beside them explain."""
_MOST_FOUND = 9.0
"""Ten times the time: a change that is seen only beyond it is not worth a figure."""


def columns(found: Comparison) -> tuple[str, ...]:
    """Return the heads of the columns."""
    what = join_words(_metrics(found), "or")
    return ("row", "A", f"{what}, B / A", f"{what} over {_reference(found)}, B / A", "verdict", _head_of_found(found))


def _metrics(found: Comparison) -> list[str]:
    """Return what the rows are judged by, in words."""
    return list(dict.fromkeys("time" if one.better is Better.LESS else one.unit for one in found.rows)) or ["time"]


def _reference(found: Comparison) -> str:
    """Return the names of the references that rows were put over."""
    return join_words(dict.fromkeys(one.reference for one in found.rows if one.reference is not None), "or") or "a reference"


def rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return a row of text for each row that either run measured, the most urgent verdict first."""
    shown = [one for one in found.rows if one.verdict is not Verdict.NOT_MEASURED]
    several = len({one.conditions for one in shown}) > 1
    return [_cells(one, several) for one in sorted(shown, key=lambda one: _ORDER.index(one.verdict))]


def _cells(row: Row, several: bool) -> tuple[str, ...]:
    name = f"{row.case}@{row.conditions}#{row.provider}" if several else f"{row.case}#{row.provider}"
    verdict = row.verdict.value if row.verdict in _WITHOUT_REASON else f"{row.verdict.value}: {row.reason}"
    seen = [one.smallest_detectable for one in (row.direct, row.relative) if one is not None and one.smallest_detectable is not None]
    return name, _value(row), _ratio(row.direct), _ratio(row.relative), verdict, _found(max(seen)) if seen else DASH


def _head_of_found(found: Comparison) -> str:
    """Return the head of the last column: a rate is judged as the time it stands for, and 100 % is half of it."""
    return "smallest change found" if _metrics(found) == ["time"] else "smallest change found, in time"


def _found(share: float) -> str:
    return percent(share) if share < _MOST_FOUND else "none could be found"


def _value(row: Row) -> str:
    if row.before is None:
        return DASH
    return duration(row.before) if row.better is Better.LESS else f"{number(row.before)} {row.unit}"


def _ratio(found: Difference | None) -> str:
    if found is None or found.ratio is None:
        return DASH
    ends = "no interval" if found.low is None or found.high is None else f"{found.low:.3f}{DASH}{found.high:.3f}"
    return f"{found.ratio:.3f} ({ends})"


def lines_below(found: Comparison) -> list[str]:
    """Return what a reader of the table must know: the runs, what was allowed to differ, how far the controls moved, what is left out."""
    conditions = sorted({one.conditions for one in found.rows})
    lines = [_side("A", found.before), _side("B", found.after)]
    lines += [f"Conditions: {', '.join(conditions)}."] if conditions else []
    lines += [f"Allowed to differ: {'; '.join(one.text for one in found.across)}."] if found.across else []
    lines += [_drift(one) for one in found.drifts]
    lines += ["Changes in percent are of the time that a rate stands for: 100 % slower is half of it."] * (_metrics(found) != ["time"])
    lines.append(
        f"{_slower(found)} Intervals hold for all rows together with 95 % (each {100 * found.level:.4g} %). A change is called where "
        f"{_called(found)}."
    )
    left_out = Counter((one.provider, one.reason) for one in found.rows if one.verdict is Verdict.NOT_MEASURED)
    lines += [
        f"Left out: {provider}, {number} {'row' if number == 1 else 'rows'}: {reason}" for (provider, reason), number in left_out.items()
    ]
    return lines


def _called(found: Comparison) -> str:
    """Return what must tell a change for it to be called one."""
    what, reference = join_words(_metrics(found), "or"), _reference(found)
    relative = [one.relative for one in found.rows if one.relative is not None]
    if relative and all(one.low is None for one in relative):
        return f"the {what} tells it: no second control says how far the {what} over {reference} moves by itself"
    return f"the {what} and the {what} over {reference} both tell it"


def _slower(found: Comparison) -> str:
    """Return on which side of 1 a row is slower: with a time above, with a rate below."""
    sides = {
        one.better: "Above 1 is slower." if one.better is Better.LESS else f"Below 1 is slower: fewer {one.unit}." for one in found.rows
    }
    if len(sides) < 2:
        return next(iter(sides.values()), "Above 1 is slower.")
    return f"Of a time above 1 is slower, of {join_words(name for name in _metrics(found) if name != 'time')} below 1."


def _drift(one: TierDrift) -> str:
    controls = f"Controls of the {one.tier.value} tier"
    if not one.direct.is_known:
        return f"{controls} were not measured in both runs: how far apart two runs of the same code may be is not known."
    return (
        f"{controls}, which no change touches, took {one.direct.common_ratio:.3f} times as long in B as in A over all, and moved by "
        f"{percent(one.direct.typical_share)} typically ({one.direct.groups} cases): intervals allow for as much."
    )


def _side(name: str, side: Side) -> str:
    partial = f"; not complete: {side.partial}" if side.partial else ""
    return f"{name}: {side.id}, taken {side.created_at}, commit {side.git_commit[:12]}{partial}"


def markdown(found: Comparison) -> str:
    """Return the whole comparison as Markdown."""
    lines = [f"**{found.sentence}**", "", *table(columns(found), rows(found), align="lrrrlr"), ""]
    return "\n".join([*lines, *(f"- {escape(line)}" for line in lines_below(found))]) + "\n"
