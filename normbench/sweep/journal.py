"""A sweep on disk: what it was asked and under which circumstances, and one line per entry, written as it comes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from ..errors import NormbenchError, UsageError
from ..files import explained, write_all, write_atomically
from .entry import Entry
from .limit import Limit
from .question import Question

__all__ = ["Header", "Journal", "read_journal", "refuse_begun"]

_HEADER, _LINES = "sweep.json", "entries.jsonl"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Say what a sweep was asked, which limit held, and with which torch on which machine it ran."""

    schema: int = 1
    question: Question
    limit: Limit
    torch: str
    machine: str
    command: tuple[str, ...]


class Journal:
    """Keep the entries of one sweep in a folder, each appended as it comes. A context manager; use `open` to make one.

    `header` is the one that holds: of a sweep that is gone on with, its own, with the limit that was chosen then.
    """

    def __init__(self, path: Path, header: Header, entries: Sequence[Entry]) -> None:
        self.path = path
        self.header = header
        self.entries = list(entries)
        self._fd = os.open(path / _LINES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    @classmethod
    def open(cls, path: Path, header: Header, *, resume: bool) -> Journal:
        """Make the folder, or go on with what it holds if `resume` says so.

        Raises UsageError where entries are there and `resume` is not, or where they are another question's, torch's or machine's;
        NormbenchError where nothing can be written.
        """
        with explained(f"cannot keep a sweep in {path}"):
            path.mkdir(parents=True, exist_ok=True)
            if not (path / _HEADER).exists():
                write_atomically(path / _HEADER, msgspec.json.format(msgspec.json.encode(header), indent=1) + b"\n")
                return cls(path, header, ())
            if not resume:
                refuse_begun(path)
            found, entries = read_journal(path)
            _refuse_difference(path, header, found)
            # A line that a crash cut short would swallow the next one.
            write_atomically(path / _LINES, b"".join(_line(one) for one in entries))
            return cls(path, found, entries)

    def append(self, entry: Entry) -> None:
        """Add an entry; it is on the disk when this returns."""
        with explained(f"cannot keep a sweep in {self.path}"):
            write_all(self._fd, _line(entry))
            os.fsync(self._fd)
        self.entries.append(entry)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)


def refuse_begun(path: Path) -> None:
    """Raise UsageError where a folder holds entries of a sweep."""
    if (path / _HEADER).is_file() and (entries := read_journal(path)[1]):
        raise UsageError(f"{path} holds a sweep of {len(entries)} entries: go on with it by --resume, or give another --out")


def read_journal(path: Path) -> tuple[Header, tuple[Entry, ...]]:
    """Return what a sweep's folder holds; a last line cut short by a crash is left out.

    Raises UsageError where the folder holds no sweep, NormbenchError where it is damaged.
    """
    if not (path / _HEADER).is_file():
        raise UsageError(f"{path} holds no sweep: it has no {_HEADER}; `normbench sweep --out DIR` makes one")
    with explained(f"cannot read {path}"):
        head = (path / _HEADER).read_bytes()
        text = (path / _LINES).read_bytes() if (path / _LINES).exists() else b""
    try:
        header = msgspec.json.decode(head, type=Header)
        entries = tuple(msgspec.json.decode(line, type=Entry) for line in text.split(b"\n")[:-1])
    except msgspec.DecodeError as error:
        raise NormbenchError(f"{path}: cannot be read as a sweep of this version ({error}); give another folder") from None
    return header, entries


def _line(entry: Entry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


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
