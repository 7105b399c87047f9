"""A study on disk: what it was asked for, and one observation per finished trial."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import UsageError
from ..storage.journal import JournalKind
from .observation import Observation, Setting

__all__ = ["JOURNALS", "Header"]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Say which study a folder holds, under which settings common to all its trials, and with which torch on which machine."""

    schema: int = 1
    study: str
    common: Setting
    torch: str
    machine: str


def _refuse_difference(path: Path, wanted: Header, found: Header) -> None:
    if found.study != wanted.study:
        raise UsageError(f"{path} holds the study {found.study!r}, not {wanted.study!r}: give another --out")
    for name in sorted(wanted.common.keys() | found.common.keys()):
        there, here = found.common.get(name), wanted.common.get(name)
        if there != here:
            raise UsageError(f"{path} was made with {name} {there}, not {here}: ask for the same, or give another --out")
    if found.torch != wanted.torch:
        raise UsageError(f"{path} was made with torch {found.torch}, and this is {wanted.torch}: give another --out")


JOURNALS: JournalKind[Header, Observation] = JournalKind(
    what="study",
    entries="observations",
    made_by="normbench study NAME --out DIR",
    header_name="study.json",
    lines_name="observations.jsonl",
    header=Header,
    entry=Observation,
    refuse_difference=_refuse_difference,
)
