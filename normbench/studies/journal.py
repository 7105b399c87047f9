"""Observations on disk: what a study was asked for, and one line per finished trial, written at once."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

import msgspec

from ..errors import NormbenchError, UsageError
from ..files import explained, write_all, write_atomically
from .observation import Observation, Setting

__all__ = ["Header", "Journal", "read_journal"]

_HEADER, _LINES = "study.json", "observations.jsonl"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """Say which study a folder holds, under which settings common to all its trials, and with which torch on which machine."""

    schema: int = 1
    study: str
    common: Setting
    torch: str
    machine: str


class Journal:
    """Keep the observations of one study in a folder, each appended as it comes. A context manager.

    Opening it makes the folder. A folder that has observations is gone on with if `resume` says so. Raises UsageError where it does not, or
    where the folder holds another study or other settings; NormbenchError where it cannot be written.
    """

    def __init__(self, path: Path, header: Header, *, resume: bool) -> None:
        self.path = path
        self.done: dict[str, Observation] = {}
        with explained(f"cannot keep observations in {path}"):
            path.mkdir(parents=True, exist_ok=True)
            if (path / _HEADER).exists():
                found, observations = read_journal(path)
                _refuse_difference(path, header, found)
                if observations and not resume:
                    raise UsageError(f"{path} holds {len(observations)} observations: go on with them by --resume, or give another --out")
                self.done = {one.key: one for one in observations}
                # A line that a crash cut short would swallow the next one.
                write_atomically(path / _LINES, b"".join(_line(one) for one in observations))
            else:
                write_atomically(path / _HEADER, msgspec.json.format(msgspec.json.encode(header), indent=1) + b"\n")
            self._fd = os.open(path / _LINES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, observation: Observation) -> None:
        """Add an observation; it is on the disk when this returns."""
        with explained(f"cannot keep observations in {self.path}"):
            write_all(self._fd, _line(observation))
            os.fsync(self._fd)
        self.done[observation.key] = observation

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)


def read_journal(path: Path) -> tuple[Header, tuple[Observation, ...]]:
    """Return what a study's folder holds; a last line cut short by a crash is left out.

    Raises UsageError where the folder holds no study, NormbenchError where it is damaged.
    """
    if not (path / _HEADER).is_file():
        raise UsageError(f"{path} holds no study: it has no {_HEADER}; `normbench study NAME --out DIR` makes one")
    with explained(f"cannot read {path}"):
        head = (path / _HEADER).read_bytes()
        text = (path / _LINES).read_bytes() if (path / _LINES).exists() else b""
    try:
        header = msgspec.json.decode(head, type=Header)
        found = {one.key: one for one in (msgspec.json.decode(line, type=Observation) for line in text.split(b"\n")[:-1])}
    except msgspec.DecodeError as error:
        raise NormbenchError(f"{path}: cannot be read as a study of this version ({error}); give another folder") from None
    return header, tuple(found.values())


def _line(observation: Observation) -> bytes:
    return msgspec.json.encode(observation) + b"\n"


def _refuse_difference(path: Path, wanted: Header, found: Header) -> None:
    if found.study != wanted.study:
        raise UsageError(f"{path} holds the study {found.study!r}, not {wanted.study!r}: give another --out")
    for name in sorted(wanted.common.keys() | found.common.keys()):
        there, here = found.common.get(name), wanted.common.get(name)
        if there != here:
            raise UsageError(f"{path} was made with {name} {there}, not {here}: ask for the same, or give another --out")
    if found.torch != wanted.torch:
        raise UsageError(f"{path} was made with torch {found.torch}, and this is {wanted.torch}: give another --out")
