"""Which record of one run stands beside which of the other, each with those that took turns with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from ..records.record import Record, Role
from ..results.derived import Result, derive_results
from .circumstances import Discrepancy, record_discrepancies

__all__ = ["Arm", "Pair", "pair_up"]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one record's result, and by provider the results that took turns with it."""

    result: Result
    beside: Mapping[str, Result]

    @property
    def record(self) -> Record:
        return self.result.record


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what is put side by side; one of the two may be missing. `refused` is in what they differ and must not."""

    before: Arm | None
    after: Arm | None
    refused: tuple[Discrepancy, ...] = ()

    @property
    def record(self) -> Record:
        """Return the record that names the pair: after's, or before's where there is none."""
        arm = self.after if self.after is not None else self.before
        assert arm is not None
        return arm.record


def pair_up(before: Iterable[Record], after: Iterable[Record], role: Role, *, across: Collection[str] = ()) -> list[Pair]:
    """Return every record of a role from either run in exactly one pair, in before's order, then what only after has.

    Records with the same key go together. Of those left over, two of the same case and provider that are the only ones of it do too, under
    whatever conditions: `refused` then names those that `across` does not allow.
    """
    left, right = _arms(before, role), _arms(after, role)
    partners = {key: key for key in left if key in right}
    alone, waiting = _only(key for key in left if key not in right), _only(key for key in right if key not in left)
    partners |= {key: waiting[name] for name, key in alone.items() if name in waiting}
    taken = set(partners.values())
    pairs = [_pair(arm, right[partners[key]] if key in partners else None, across) for key, arm in left.items()]
    return pairs + [_pair(None, arm, across) for key, arm in right.items() if key not in taken]


_Key = tuple[str, str, str]
"""Case, provider and conditions, by their ids."""


def _arms(records: Iterable[Record], role: Role) -> dict[_Key, Arm]:
    results = derive_results(records)
    groups: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        groups.setdefault(_group(one.record), []).append(one)
    arms = {}
    for one in results:
        if one.record.role is role:
            key = (one.record.case_id, one.record.provider, one.record.conditions.id)
            arms[key] = Arm(result=one, beside=_beside(one, groups[_group(one.record)]))
    return arms


def _group(record: Record) -> tuple[str, str]:
    return record.group, record.conditions.id


def _beside(result: Result, group: Iterable[Result]) -> dict[str, Result]:
    """Return by provider what took turns with a result: the group's controls, and the other providers of its case."""
    mine = result.record.case_id
    return {one.record.provider: one for one in group if one.record.role is Role.CONTROL or one.record.case_id == mine}


def _only(keys: Iterable[_Key]) -> dict[tuple[str, str], _Key]:
    """Return by case and provider the keys that are the only ones of it."""
    found: dict[tuple[str, str], list[_Key]] = {}
    for key in keys:
        found.setdefault(key[:2], []).append(key)
    return {name: same[0] for name, same in found.items() if len(same) == 1}


def _pair(before: Arm | None, after: Arm | None, across: Collection[str]) -> Pair:
    if before is None or after is None:
        return Pair(before=before, after=after)
    refused = tuple(one for one in record_discrepancies(before.record, after.record) if one.field not in across)
    return Pair(before=before, after=after, refused=refused)
