"""What the rows of two runs say in words: one sentence for each kind of verdict there is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from ..cases.metric import Better
from ..quantities.units import count, percent, some
from .difference import Verdict
from .rows import Row

__all__ = ["count_rows", "named_worst", "sentences"]

SHOWN = 2
"""How many rows a sentence names before it says "and N more"."""
SIDE_BY_SIDE = "`normbench gate` runs both side by side and tells far smaller changes"


def sentences(rows: Sequence[Row]) -> dict[Verdict, str]:
    """Return a sentence by verdict, the most urgent first; `wrong` speaks for what failed too, and what was not measured is left out."""
    total = count_rows([one for one in rows if one.direct is not None])
    found: dict[Verdict, list[Row]] = {}
    for row in rows:
        found.setdefault(Verdict.WRONG if row.verdict is Verdict.FAILED else row.verdict, []).append(row)
    said: dict[Verdict, Callable[[Sequence[Row]], str]] = {
        Verdict.WRONG: lambda these: f"{count_rows(these)} {_verb(these, 'is', 'are')} wrong in B, or did not run: {_names(these)}.",
        Verdict.SLOWER: lambda these: f"B is slower than A in {len(these)} of {total}, {named_worst(these)}.",
        Verdict.MISSING: lambda these: f"{count_rows(these)} of A {_verb(these, 'is', 'are')} missing in B: {_names(these)}.",
        Verdict.NOT_COMPARABLE: lambda these: f"{count_rows(these)} cannot be compared: {_names(these)} ({_reasons(these)}).",
        Verdict.FASTER: lambda these: f"B is faster than A in {len(these)} of {total}, {named_worst(these)}.",
        Verdict.NO_DIFFERENCE: lambda these: f"No difference was seen in {len(these)} of {total}{_limit(these)}.",
        Verdict.INCONCLUSIVE: lambda these: f"Runs taken at different times cannot tell in {len(these)} of {total}; {SIDE_BY_SIDE}.",
        Verdict.NEW: lambda these: f"{count_rows(these)} of B {_verb(these, 'was', 'were')} not measured in A: {_names(these)}.",
    }
    return {verdict: say(found[verdict]) for verdict, say in said.items() if verdict in found}


def named_worst(rows: Sequence[Row]) -> str:
    """Return which row changed most, by how much, and the names of the others."""
    first = max(rows, key=_change)
    rest = [one for one in rows if one is not first]
    ratio = first.direct.ratio if first.direct is not None else None
    of = "A" if first.better is Better.LESS else f"A's {first.unit}"
    named = f"most of all {_name(first)}" + (f" ({ratio:.3f} times {of})" if ratio is not None else "")
    return named + (f"; also {_names(rest)}" if rest else "")


def count_rows(rows: Sequence[Row]) -> str:
    return count(len(rows), "row")


def _names(rows: Sequence[Row]) -> str:
    return some(map(_name, rows), SHOWN)


def _name(row: Row) -> str:
    return f"{row.case}#{row.provider}"


def _change(row: Row) -> float:
    return abs(log(row.direct.ratio)) if row.direct is not None and row.direct.ratio is not None else 0.0


def _reasons(rows: Sequence[Row]) -> str:
    reasons = list(dict.fromkeys(one.reason for one in rows))
    return reasons[0] if len(reasons) == 1 else f"{reasons[0]}, and other reasons"


def _limit(rows: Sequence[Row]) -> str:
    seen = [one.smallest_detectable for row in rows for one in (row.direct, row.relative) if one is not None]
    return f"; a change of {percent(max(known))} would have been" if (known := [one for one in seen if one is not None]) else ""


def _verb(rows: Sequence[Row], one: str, many: str) -> str:
    return one if len(rows) == 1 else many
