"""A journal on disk: a header that says what was asked, and one line per entry, written as it comes and gone on with after a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec

from ..errors import NormbenchError, UsageError
from .files import AppendedFile, explained, write_atomically

__all__ = ["Journal", "JournalKind"]

_H = TypeVar("_H", bound=msgspec.Struct)
_E = TypeVar("_E", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalKind(Generic[_H, _E]):
    """Say what the journals of one purpose hold, under which names, and in which words messages speak of them.

    `what` is e.g. `sweep`, `entries` what its entries are called, `made_by` the command that makes one. `entry` is the type of an entry or
    a union of types. `refuse_difference(path, wanted, found)` raises UsageError where a journal cannot be gone on with.
    """

    what: str
    entries: str
    made_by: str
    header_name: str
    lines_name: str
    header: type[_H]
    entry: Any
    refuse_difference: Callable[[Path, _H, _H], None]

    def open(self, path: Path, header: _H, *, resume: bool) -> Journal[_H, _E]:
        """Make the folder, or go on with what it holds if `resume` says so.

        Raises UsageError where another's entries are there, or entries and no `resume`; NormbenchError where nothing can be written.
        """
        with explained(f"cannot keep a {self.what} in {path}"):
            path.mkdir(parents=True, exist_ok=True)
            if not (path / self.header_name).exists():
                write_atomically(path / self.header_name, msgspec.json.format(msgspec.json.encode(header), indent=1) + b"\n")
                return Journal(path, path / self.lines_name, header, ())
            found, entries = self.read(path)
            self.refuse_difference(path, header, found)
            if not resume:
                self._refuse_any(path, entries)
            # A line that a crash cut short would swallow the next one.
            write_atomically(path / self.lines_name, b"".join(map(_line, entries)))
            return Journal(path, path / self.lines_name, found, entries)

    def read(self, path: Path) -> tuple[_H, tuple[_E, ...]]:
        """Return what a folder holds; a last line cut short by a crash is left out.

        Raises UsageError where the folder holds no journal of this kind, NormbenchError where it is damaged.
        """
        if not (path / self.header_name).is_file():
            raise UsageError(f"{path} holds no {self.what}: it has no {self.header_name}; `{self.made_by}` makes one")
        with explained(f"cannot read {path}"):
            head = (path / self.header_name).read_bytes()
            text = (path / self.lines_name).read_bytes() if (path / self.lines_name).exists() else b""
        try:
            header = msgspec.json.decode(head, type=self.header)
            entries = tuple(msgspec.json.decode(line, type=self.entry) for line in text.split(b"\n")[:-1])
        except msgspec.DecodeError as error:
            raise NormbenchError(f"{path}: cannot be read as a {self.what} of this version ({error}); give another folder") from None
        return header, entries

    def refuse_begun(self, path: Path) -> None:
        """Raise UsageError where a folder holds entries already."""
        if (path / self.header_name).is_file():
            self._refuse_any(path, self.read(path)[1])

    def _refuse_any(self, path: Path, entries: Sequence[_E]) -> None:
        if entries:
            raise UsageError(
                f"{path} holds a {self.what} of {len(entries)} {self.entries}: go on with it by --resume, or give another --out"
            )


class Journal(Generic[_H, _E]):
    """Keep entries in a folder, each appended as it comes. A context manager; `JournalKind.open` makes one.

    `header` is the one that holds: of a journal that is gone on with, its own.
    """

    def __init__(self, path: Path, lines: Path, header: _H, entries: Sequence[_E]) -> None:
        self.path = path
        self.header = header
        self.entries = list(entries)
        self._file = AppendedFile(lines)

    def append(self, entry: _E) -> None:
        """Add an entry; it is on the disk when this returns. Raises NormbenchError where it cannot be written."""
        with explained(f"cannot write to {self.path}"):
            self._file.append(_line(entry))
        self.entries.append(entry)

    def __enter__(self) -> Journal[_H, _E]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def _line(entry: msgspec.Struct) -> bytes:
    return msgspec.json.encode(entry) + b"\n"
