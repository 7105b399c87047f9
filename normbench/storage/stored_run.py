"""Runs on disk: a directory with `run.json` (what was asked, where) and `records.jsonl` (what was found, one line each, as found)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import NormbenchError, UsageError
from ..records.record import Record, Role, decode_record
from .files import explained
from .lines import RECORDS, read_lines

__all__ = [
    "DEFAULT_ROOT",
    "INFO",
    "LATEST",
    "RUN_SCHEMA_VERSION",
    "Machine",
    "Run",
    "RunInfo",
    "RunStatus",
    "find_run",
    "list_runs",
    "put",
    "read_run",
]

_T = TypeVar("_T")

DEFAULT_ROOT = Path(".normbench/runs")
LATEST = "latest"
"""Name of the text file under the root that holds the name of the run started last, and the word that asks for it."""

RUN_SCHEMA_VERSION = 1
INFO = "run.json"


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


def list_runs(root: Path | str = DEFAULT_ROOT) -> list[str]:
    """Return the names of the runs under `root`, oldest first; none when there is no such folder."""
    with explained(f"cannot list the runs under {root}"):
        return sorted(path.parent.name for path in Path(root).glob(f"*/{INFO}"))


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
        put(records, record, record)
    if torn:
        info = msgspec.structs.replace(info, notes=[*info.notes, f"the last line of {RECORDS} was cut short and is left out"])
    return Run(info=info, records=tuple(records.values()), path=path)


def find_run(run: Path | str = LATEST, *, root: Path | str = DEFAULT_ROOT) -> tuple[Path, RunInfo]:
    """Return where a run lies and what it says of itself, without its records. Raises as `read_run` does."""
    path = _find(str(run), Path(root))
    return path, _read_info(path / INFO)


def put(found: dict[str, _T], record: Record, value: _T) -> None:
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
        if path.name == INFO and path.is_file():
            return path.parent
        if run and path.is_dir():
            if not (path / INFO).is_file():
                raise NormbenchError(f"{path} is not a normbench run: it has no {INFO}; {_those_there(root)}")
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
        raise NormbenchError(f"{path}: not the {INFO} of a normbench run ({error})") from None
