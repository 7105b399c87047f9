"""Which part of a run a machine takes: what is compared with each other stays together, and every part is about as long. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..cases.case import Case
from ..errors import UsageError

if TYPE_CHECKING:
    from ..measure.group import Group

__all__ = ["Shard", "units_of"]


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """Name one of the `count` parts that a run is taken apart into; `index` counts from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard of `i/n`, such as `2/8`. Raises UsageError for anything else."""
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        index, count = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= index <= count:
            raise UsageError(f"shard {text!r} is not one of the parts of a run: give i/n with i from 1 to n, such as 2/8")
        return cls(index=index, count=count)

    @property
    def text(self) -> str:
        return f"{self.index}/{self.count}"

    def pick(self, groups: Sequence[Group]) -> list[Group]:
        """Return this shard's groups, in the order they were given in.

        The parts of one list are disjoint, make up all of it, and differ by one unit at most (see `units_of`). Units are dealt out in
        the order of a hash of their ids: grids go by size, and dealt out in that order one shard would get the largest of each.
        """
        ranked = sorted(units_of(groups), key=lambda unit: min(_digest(group.id) for group in unit))
        mine = {group.id for unit in ranked[self.index - 1 :: self.count] for group in unit}
        return [group for group in groups if group.id in mine]


def units_of(groups: Sequence[Group], beside: Mapping[str, Sequence[Group]] | None = None) -> list[list[Group]]:
    """Return the groups in units that one machine must take, in the order of each unit's first group.

    Groups whose cases differ in nothing but the norm are put beside each other by a report, and so are a network and the norms that come
    along with it: `beside` holds those by the network's group id. Networks that share such a norm are one unit.
    """
    companies = [[group, *(beside or {}).get(group.id, ())] for group in groups]
    parents: dict[Hashable, Hashable] = {}

    def root(label: Hashable) -> Hashable:
        while (parent := parents.setdefault(label, label)) != label:
            label = parent
        return label

    for company in companies:
        label = root(_label(company[0]))
        for one in company:
            parents[root(one.id)] = label
    units: dict[Hashable, dict[str, Group]] = {}
    for company in companies:
        units.setdefault(root(_label(company[0])), {}).update({one.id: one for one in company})
    return [list(unit.values()) for unit in units.values()]


def _label(group: Group) -> Hashable:
    """Return what a group shares with those that differ from it in nothing but the norm."""
    case = group.case
    if not isinstance(case, Case):
        return group.id
    return case.tier, case.pass_, case.shape, case.dtype, case.weight_dtype, case.residual, group.conditions


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
