"""Rows in which every two choices of different factors meet at least once: most faults need no more than two. Pure.

Dalal, Mallows: Factor-Covering Designs for Testing Software, Technometrics 40 (1998). All combinations would be thousands of times more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

__all__ = ["cover_pairs"]

Choice = tuple[str, int]
Allowed = Callable[[str, Any, str, Any], bool]
Row = dict[str, int]


def cover_pairs(factors: Mapping[str, Sequence[Any]], allowed: Allowed) -> list[dict[str, Any]]:
    """Return rows of one choice per factor so that every pair of choices that is allowed stands in one of them.

    `allowed(factor, choice, other_factor, other_choice)` says whether two choices go together. Each row begins with the first pair
    that is in none so far and is filled up greedily, so earlier rows cover more new pairs than later ones. A pair that no row can hold
    is left out. The same input gives the same rows.
    """
    names = list(factors)
    rank = {name: place for place, name in enumerate(names)}

    def in_order(one: Choice, other: Choice) -> tuple[Choice, Choice]:
        return (one, other) if rank[one[0]] < rank[other[0]] else (other, one)

    def go_together(one: Choice, other: Choice) -> bool:
        (a, i), (b, j) = in_order(one, other)
        return allowed(a, factors[a][i], b, factors[b][j])

    waiting = {
        ((a, i), (b, j)): None
        for a, b in combinations(names, 2)
        for i, j in product(range(len(factors[a])), range(len(factors[b])))
        if go_together((a, i), (b, j))
    }
    rows: list[Row] = []
    used: dict[Choice, int] = {}
    while waiting:
        first = next(iter(waiting))
        row = dict(first)
        for name in sorted(names, key=lambda name: -len(factors[name])):
            if name in row:
                continue
            possible = [(name, i) for i in range(len(factors[name])) if all(go_together((name, i), (other, j)) for other, j in row.items())]
            if not possible:
                break
            # The least used of the equally useful ones, so that what is no longer needed for a pair is spread evenly.
            _, best = max(
                possible,
                key=lambda choice: (
                    sum(in_order(choice, taken) in waiting for taken in row.items()),
                    -used.get(choice, 0),
                    -choice[1],
                ),
            )
            row[name] = best
        if len(row) < len(names):
            del waiting[first]
            continue
        for one, other in combinations(row.items(), 2):
            waiting.pop(in_order(one, other), None)
        for taken in row.items():
            used[taken] = used.get(taken, 0) + 1
        rows.append({name: row[name] for name in names})
    if len(names) == 1:
        # A single factor has no pairs.
        rows = [{names[0]: place} for place in range(len(factors[names[0]]))]
    return [{name: factors[name][place] for name, place in row.items()} for row in _most_telling_first(rows)]


def _most_telling_first(rows: list[Row]) -> list[Row]:
    pairs = [set(combinations(row.items(), 2)) for row in rows]
    left, seen, ordered = list(range(len(rows))), set[tuple[Choice, Choice]](), []
    while left:
        best = max(left, key=lambda place: (len(pairs[place] - seen), -place))
        left.remove(best)
        seen |= pairs[best]
        ordered.append(rows[best])
    return ordered
