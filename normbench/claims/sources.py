"""Results of runs by where they were taken: a figure is told of results of one machine, one software and one plan, never of two.

Cases that take turns must have done so, in one group of one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..cases.conditions import Conditions
from ..cases.tiers import AnyCase
from ..comparison.circumstances import run_discrepancies
from ..records.record import Role, Status
from ..results.derived import Result, derive_results
from ..storage.stored_run import Run, RunInfo

__all__ = ["Found", "Group", "Source", "Turns", "Wanted", "best_found", "find", "sources_of"]

Turns = tuple[AnyCase, ...]
"""Cases that take turns with each other."""
Group = tuple[Result, ...]
"""Results that took turns, with their controls."""

_REFUSALS = (Status.SKIPPED, Status.UNSUPPORTED, Status.OOM)
"""How a case ends that would end the same way again; what was wrong, failed or was interrupted is measured anew."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one run has of one place; machine and versions of `info` are those of that place."""

    info: RunInfo
    node: str = ""
    results: tuple[Result, ...]

    def is_comparable(self, other: Source) -> bool:
        """Say whether figures may be told of results of both."""
        return self.node == other.node and not run_discrepancies(self.info, other.info)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Name what an evaluator needs: each of `turns` by all providers in one group."""

    turns: tuple[Turns, ...]
    providers: tuple[str, ...]
    conditions: Conditions


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a group for each of what was wanted, empty where there is none; `unsettled` lacks a time and a lawful refusal."""

    groups: tuple[Group, ...]
    unsettled: tuple[Turns, ...]
    score: tuple[int, int]


def sources_of(run: Run) -> list[Source]:
    """Return the results of a run, place by place."""
    places: dict[tuple[str, str], list[Result]] = {}
    for one in derive_results(run.records):
        places.setdefault(one.record.place, []).append(one)
    return [Source(info=_info(run.info, machine), node=node, results=tuple(results)) for (machine, node), results in places.items()]


def _info(info: RunInfo, machine: str) -> RunInfo:
    other = info.machines.get(machine)
    return info if other is None else msgspec.structs.replace(info, machine=other.machine, versions=other.versions)


def find(group: Iterable[Result], case: AnyCase, provider: str) -> Result | None:
    """Return the result of a case by a provider, None where the group has none."""
    wanted = (case, provider, Role.PROVIDER)
    return next((one for one in group if (one.record.case, one.record.provider, one.record.role) == wanted), None)


def best_found(sources: Sequence[Source], wanted: Wanted) -> Found:
    """Return what is wanted from those comparable sources that have most of it; of equals, from those named first."""
    return max((_found(members, wanted) for members in _comparable(sources) or [[]]), key=lambda found: found.score)


def _comparable(sources: Sequence[Source]) -> list[list[Source]]:
    """Return for each source those that may be put beside it and beside each other.

    Both are asked for: a package that one run does not know may have two versions in two others.
    """
    found = []
    for first in sources:
        members = [first]
        for other in sources:
            if other is not first and all(map(other.is_comparable, members)):
                members.append(other)
        found.append(members)
    return found


def _found(sources: Sequence[Source], wanted: Wanted) -> Found:
    groups = _groups(sources, wanted.conditions)
    best = [max(groups, key=lambda group: _score(_standings(group, turns, wanted.providers))) for turns in wanted.turns]
    standings = [_standings(group, turns, wanted.providers) for group, turns in zip(best, wanted.turns, strict=True)]
    scores = [_score(one) for one in standings]
    return Found(
        groups=tuple(best),
        unsettled=tuple(turns for turns, one in zip(wanted.turns, standings, strict=True) if not all(one)),
        score=(sum(settled for settled, _ in scores), sum(worth for _, worth in scores)),
    )


def _groups(sources: Sequence[Source], conditions: Conditions) -> list[Group]:
    """Return what took turns under the conditions, and an empty group for what none of them has."""
    found: list[Group] = [()]
    for source in sources:
        groups: dict[str, list[Result]] = {}
        for one in source.results:
            if one.record.conditions == conditions:
                groups.setdefault(one.record.group, []).append(one)
        found += map(tuple, groups.values())
    return found


def _standings(group: Group, turns: Turns, providers: Sequence[str]) -> list[int]:
    return [_standing(find(group, case, provider)) for case in turns for provider in providers]


def _standing(one: Result | None) -> int:
    """Return what a result is worth: 3 with a time, 2 with one of a device that throttled, 1 if lawfully refused, 0 otherwise."""
    if one is None or (one.time is None and one.record.status not in _REFUSALS):
        return 0
    return {Status.OK: 3, Status.THROTTLED: 2}.get(one.record.status, 1)


def _score(standings: Sequence[int]) -> tuple[int, int]:
    return sum(map(bool, standings)), sum(standings)
