"""Runs on disk: a directory with `run.json` (what was asked, where) and `records.jsonl` (what was found, one line each, as found).

A crash at any moment loses at most the record being written: every line is flushed to the disk before `append` returns, and
`run.json` says `incomplete` until the last record is there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from .errors import NormbenchError, UsageError
from .files import explained, make_directory, write_atomically
from .lines import RECORDS, append_lines, mend, read_lines
from .record import Record, Role, decode_record, encode_record

__all__ = [
    "DEFAULT_ROOT",
    "LATEST",
    "RUN_SCHEMA_VERSION",
    "Machine",
    "Run",
    "RunInfo",
    "RunStatus",
    "RunWriter",
    "find_run",
    "list_runs",
    "read_run",
]

_T = TypeVar("_T")

DEFAULT_ROOT = Path(".normbench/runs")
LATEST = "latest"
"""Name of the text file under the root that holds the name of the run started last, and the word that asks for it."""

RUN_SCHEMA_VERSION = 1
_INFO = "run.json"


class RunStatus(StrEnum):
    """Say whether every planned record is there. Only a complete run may pass a gate or become a baseline."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what is known of one of several machines, as `RunInfo` does of a run's own."""

    machine: dict[str, Any]
    versions: dict[str, Any]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one invocation asked for and where it ran: the content of `run.json`.

    `planned` counts the records expected of providers; controls are not counted. `git_commit` is `unknown` when not known.
    `settings` holds the plan (budget, processes, repetitions, turns). `notes` says in words what a reader must know, such as a
    dropped line. `machines` are those that records name as theirs, for a run that was taken on more than its own.
    """

    schema: int = RUN_SCHEMA_VERSION
    id: str
    created_at: str
    status: RunStatus = RunStatus.INCOMPLETE
    command: list[str]
    git_commit: str = "unknown"
    seed: int
    settings: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, Any]
    planned: int
    notes: list[str] = []
    machines: dict[str, Machine] = {}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a run as read: its info, its records (one per key, the last one written wins) and where it lies."""

    info: RunInfo
    records: tuple[Record, ...]
    path: Path

    @property
    def missing(self) -> int:
        """Return how many of the planned records are not there."""
        return max(0, self.info.planned - _count_planned(self.records))

    @property
    def is_complete(self) -> bool:
        """Say whether the run was finished and holds every planned record, and at least one."""
        return self.info.status is RunStatus.COMPLETE and bool(self.records) and not self.missing


class RunWriter:
    """Write one run: create it (or resume it), append records as they come, finish.

    As a context manager it finishes the run on leaving; an exception marks it incomplete, with a note, and goes on.
    """

    def __init__(self, path: Path, info: RunInfo, records: Sequence[Record]) -> None:
        """Open `path` for appending; use `create` or `resume`. `done` holds the records that are there already."""
        self.path = path
        self.info = info
        self.done: dict[str, Record] = {record.key: record for record in records}
        # Keys only: a run of 100,000 records must not be held in memory to be written.
        self._is_planned = {record.key: record.role is Role.PROVIDER for record in records}
        self._finished = False
        with explained(f"cannot write the run {path}"):
            self._write_info()
            self._fd: int | None = os.open(path / RECORDS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            write_atomically(path.parent / LATEST, f"{path.name}\n".encode())

    @classmethod
    def create(
        cls,
        label: str,
        *,
        command: Sequence[str],
        seed: int,
        planned: int,
        settings: dict[str, Any],
        machine: dict[str, Any],
        versions: dict[str, Any],
        git_commit: str = "unknown",
        notes: Sequence[str] = (),
        root: Path | str = DEFAULT_ROOT,
    ) -> RunWriter:
        """Make a new run directory `<UTC time>-<label>` under `root` and point `latest` to it.

        Raises NormbenchError when it cannot be written.
        """
        now = datetime.now(UTC)
        path = make_directory("run", Path(root), f"{now:%Y%m%d-%H%M%S}-{re.sub(r'[^A-Za-z0-9_.]+', '-', label).strip('-.') or 'run'}")
        info = RunInfo(
            id=path.name,
            created_at=now.isoformat(timespec="seconds"),
            command=list(command),
            git_commit=git_commit,
            seed=seed,
            settings=settings,
            machine=machine,
            versions=versions,
            planned=planned,
            notes=list(notes),
        )
        return cls(path, info, ())

    @classmethod
    def resume(cls, run: Path | str = LATEST, *, root: Path | str = DEFAULT_ROOT) -> RunWriter:
        """Open an existing run for appending; `done` holds what it has. A last line cut short is removed, with a note.

        Raises NormbenchError when there is no such run or it cannot be read or written.
        """
        known = read_run(run, root=root)
        with explained(f"cannot write the run {known.path}"):
            mend(known.path / RECORDS)
        info = msgspec.structs.replace(known.info, status=RunStatus.INCOMPLETE)
        return cls(known.path, info, known.records)

    def append(self, *records: Record) -> None:
        """Add records, all or none of them, and wait until they are on the disk.

        Raises NormbenchError when they cannot be written (disk full) or are no valid records (see `encode_record`); what was
        written before stays as it was.
        """
        self.append_lines([(record, encode_record(record)) for record in records])

    def append_lines(self, records: Sequence[tuple[Record, bytes]]) -> None:
        """Add records as the lines they were read from, so that what a newer normbench added to them stays; see `append`."""
        if self._fd is None:
            raise NormbenchError(f"run {self.info.id} is finished; resume it to add records")
        lines = b"".join(line + b"\n" for _, line in records)
        try:
            append_lines(self._fd, lines)
        except OSError as error:
            raise NormbenchError(
                f"cannot write {', '.join(record.key for record, _ in records)} to {self.path / RECORDS}: {error.strerror}; the "
                f"{len(self._is_planned)} records before are kept: make room, then resume the run {self.info.id}"
            ) from error
        for record, _ in records:
            _put(self._is_planned, record, record.role is Role.PROVIDER)

    def add_machine(self, name: str, machine: Machine) -> None:
        """Enter a machine that records name as theirs, written at once."""
        if name not in self.info.machines:
            self.info = msgspec.structs.replace(self.info, machines={**self.info.machines, name: machine})
            with explained(f"cannot write the run {self.path}"):
                self._write_info()

    def note(self, text: str) -> None:
        """Add a sentence to the run's notes, written at once."""
        self.info = msgspec.structs.replace(self.info, notes=[*self.info.notes, text])
        with explained(f"cannot write the run {self.path}"):
            self._write_info()

    def finish(self, status: RunStatus = RunStatus.COMPLETE) -> Path:
        """Write the final status and return the run's path. A run that lacks planned records is incomplete whatever was asked."""
        if status is RunStatus.COMPLETE and sum(self._is_planned.values()) < self.info.planned:
            status = RunStatus.INCOMPLETE
        self.info = msgspec.structs.replace(self.info, status=status)
        self._finished = True
        self.close()
        with explained(f"cannot write the run {self.path}"):
            self._write_info()
        return self.path

    def close(self) -> None:
        """Close the file of records; the run keeps the status that it has on disk."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._finished:
            return
        if kind is None:
            self.finish()
            return
        text = f"stopped by {kind.__name__}" + (f": {error}" if str(error) else "")
        self.info = msgspec.structs.replace(self.info, notes=[*self.info.notes, text])
        with contextlib.suppress(NormbenchError):
            self.finish(RunStatus.INCOMPLETE)

    def _write_info(self) -> None:
        write_atomically(self.path / _INFO, msgspec.json.format(msgspec.json.encode(self.info), indent=1) + b"\n")


def list_runs(root: Path | str = DEFAULT_ROOT) -> list[str]:
    """Return the names of the runs under `root`, oldest first; none when there is no such folder."""
    with explained(f"cannot list the runs under {root}"):
        return sorted(path.parent.name for path in Path(root).glob(f"*/{_INFO}"))


def read_run(run: Path | str = LATEST, *, root: Path | str = DEFAULT_ROOT) -> Run:
    """Read a run by path, by its name under `root`, or the one started last (`latest`).

    A last line cut short (a process killed while writing) is left out, with a note; of records with one key the last wins.
    Raises UsageError for an unknown run, NormbenchError for a foreign directory, a newer schema, or a damaged file.
    """
    path, info = find_run(run, root=root)
    lines, torn = read_lines(path / RECORDS)
    records: dict[str, Record] = {}
    for number, line in enumerate(lines, 1):
        record = decode_record(line, origin=f"{path / RECORDS}, line {number}")
        _put(records, record, record)
    if torn:
        info = msgspec.structs.replace(info, notes=[*info.notes, f"the last line of {RECORDS} was cut short and is left out"])
    return Run(info=info, records=tuple(records.values()), path=path)


def find_run(run: Path | str = LATEST, *, root: Path | str = DEFAULT_ROOT) -> tuple[Path, RunInfo]:
    """Return where a run lies and what it says of itself, without its records. Raises as `read_run` does."""
    path = _find(str(run), Path(root))
    return path, _read_info(path / _INFO)


def _put(found: dict[str, _T], record: Record, value: _T) -> None:
    """Keep a value under a record's key; what a machine found replaces what was said when none had measured it yet."""
    if record.machine:
        found.pop(record.asked, None)
    found[record.key] = value


def _count_planned(records: Iterable[Record]) -> int:
    return sum(record.role is Role.PROVIDER for record in records)


def _find(run: str, root: Path) -> Path:
    if run == LATEST:
        pointer = root / LATEST
        if not pointer.is_file():
            raise UsageError(f"there is no latest run under {root}: {_those_there(root)}")
        with explained(f"cannot read {pointer}"):
            run = pointer.read_text(encoding="utf-8", errors="replace").strip()
    for path in (root / run, Path(run)):
        if path.name == _INFO and path.is_file():
            return path.parent
        if run and path.is_dir():
            if not (path / _INFO).is_file():
                raise NormbenchError(f"{path} is not a normbench run: it has no {_INFO}; {_those_there(root)}")
            return path
    raise UsageError(f"there is no run {run!r}, neither under {root} nor as a path: {_those_there(root)}")


def _those_there(root: Path) -> str:
    names = list_runs(root)
    if not names:
        return "no run is there; make one with `normbench run`"
    shown = ", ".join(reversed(names[-10:]))
    return f"runs there are {shown}" + (f" and {len(names) - 10} older" if len(names) > 10 else "")


def _read_info(path: Path) -> RunInfo:
    with explained(f"cannot read {path}"):
        data = path.read_bytes()
    try:
        schema = msgspec.json.decode(data, type=dict[str, Any]).get("schema")
        if isinstance(schema, int) and schema > RUN_SCHEMA_VERSION:
            raise NormbenchError(
                f"{path}: schema {schema} is newer than {RUN_SCHEMA_VERSION}, the newest this normbench reads: update normbench"
            )
        return msgspec.json.decode(data, type=RunInfo)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NormbenchError(f"{path}: not the {_INFO} of a normbench run ({error})") from None
