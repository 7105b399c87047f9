"""A run that is to be joined with others: what it says of itself, and its records as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..job.request import Request
from ..records.record import Record, Status, decode_record
from ..storage.lines import RECORDS, stream_lines
from ..storage.stored_run import Machine, RunInfo
from .machines import machine_name

__all__ = ["Source"]


class Source:
    """Hold a run's info and yield its records one at a time; `number` tells it from the others.

    `request` is null where the run does not say what it was made from, such as one that was joined of different grids.
    """

    def __init__(self, number: int, path: Path, info: RunInfo) -> None:
        self.number = number
        self.path = path
        self.info = info
        self.own_machine = machine_name(info.machine, info.versions)
        try:
            self.request: Request | None = msgspec.convert(info.settings["request"], Request)
        except (KeyError, msgspec.ValidationError):
            self.request = None
        self._asked = {case.id for case in self.request.cases} if self.request is not None else None

    @property
    def name(self) -> str:
        """Return the run's id, and which shard it is."""
        shard = self.request.shard if self.request is not None else None
        return self.info.id + (f" (shard {shard.text})" if shard is not None else "")

    @property
    def machines(self) -> dict[str, Machine]:
        """Return what the run knows of machines, its own among them."""
        own = Machine(machine=self.info.machine, versions=self.info.versions)
        return {self.own_machine: own, **self.info.machines}

    def records(self) -> Iterator[tuple[int, bytes, Record]]:
        """Yield number, text and content of each line. Raises NormbenchError for one that cannot be read."""
        for number, line in stream_lines(self.path / RECORDS):
            yield number, line, decode_record(line, origin=f"{self.path / RECORDS}, line {number}")

    def machine_of(self, record: Record) -> str:
        """Return the name of the machine that a record is of, empty for one that no machine of a cluster has got to."""
        if not record.machine and self.info.machines and record.status is Status.INTERRUPTED:
            return ""
        return record.machine or self.own_machine

    def was_asked(self, record: Record) -> bool:
        """Say whether a record was asked for, and is not that of a norm that came along with its network."""
        return self._asked is None or record.case_id in self._asked
