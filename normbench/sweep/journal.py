"""A sweep on disk: what it was asked and under which circumstances, and its entries."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import UsageError
from ..storage.journal import Journal, JournalKind
from .entry import Entry
from .limit import Limit
from .question import Question

__all__ = ["JOURNALS", "Header", "SweepJournal"]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Say what a sweep was asked, which limit held, and with which torch on which machine it ran."""

    schema: int = 1
    question: Question
    limit: Limit
    torch: str
    machine: str
    command: tuple[str, ...]


SweepJournal = Journal[Header, Entry]


def _refuse_difference(path: Path, wanted: Header, found: Header) -> None:
    for name in Question.__struct_fields__:
        there, here = getattr(found.question, name), getattr(wanted.question, name)
        if there != here:
            raise UsageError(
                f"{path} was made with another {name}, {_said(there)}, not {_said(here)}: ask for the same, or give another --out"
            )
    for name in ("torch", "machine"):
        there, here = getattr(found, name), getattr(wanted, name)
        if there != here:
            raise UsageError(f"{path} was made with {name} {there}, and this is {here}: give another --out")


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(getattr(one, "id", str(one)) for one in value)
    return str(value)


JOURNALS: JournalKind[Header, Entry] = JournalKind(
    what="sweep",
    entries="entries",
    made_by="normbench sweep --out DIR",
    header_name="sweep.json",
    lines_name="entries.jsonl",
    header=Header,
    entry=Entry,
    refuse_difference=_refuse_difference,
)
