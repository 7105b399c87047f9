"""Writing a run (see `stored_run`), record by record.

A crash at any moment loses at most the record being written: every line is flushed to the disk before `append` returns, and
`run.json` says `incomplete` until the last record is there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from ..errors import NormbenchError
from ..records.record import Record, Role, encode_record
from .files import AppendedFile, explained, make_directory, write_atomically
from .lines import RECORDS, mend
from .stored_run import DEFAULT_ROOT, INFO, LATEST, Machine, RunInfo, RunStatus, put, read_run

__all__ = ["RunWriter"]


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
            self._file: AppendedFile | None = AppendedFile(path / RECORDS)
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
        if self._file is None:
            raise NormbenchError(f"run {self.info.id} is finished; resume it to add records")
        lines = b"".join(line + b"\n" for _, line in records)
        try:
            self._file.append(lines)
        except OSError as error:
            raise NormbenchError(
                f"cannot write {', '.join(record.key for record, _ in records)} to {self.path / RECORDS}: {error.strerror}; the "
                f"{len(self._is_planned)} records before are kept: make room, then resume the run {self.info.id}"
            ) from error
        for record, _ in records:
            put(self._is_planned, record, record.role is Role.PROVIDER)

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
        if self._file is not None:
            self._file.close()
            self._file = None

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
        write_atomically(self.path / INFO, msgspec.json.format(msgspec.json.encode(self.info), indent=1) + b"\n")
