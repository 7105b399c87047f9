"""Which of the records of several runs are kept: each once, one that was measured before one that was interrupted."""

from __future__ import annotations

import hashlib

import msgspec

from ..errors import UsageError
from ..records.record import Record, Role, Status
from .source import Source

__all__ = ["Choice"]


class _Place(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Say in which source and line a record is, whether it counts as planned, and whether it was asked for."""

    source: int
    line: int
    is_planned: bool
    is_asked: bool


class Choice:
    """Hold for each record where it is kept from. Keys are digests of 16 bytes: there may be 100,000 records.

    `dropped` counts records of providers that were planned in more than one source and are kept once, `came_along` those among them
    that are of norms of networks, measured by every shard that has such a network. `machines` names those that records were taken on,
    and `schemas` holds each schema with the first source that has it.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self.came_along = 0
        self.machines: dict[str, None] = {}
        self.schemas: dict[int, Source] = {}
        self._done: dict[bytes, _Place] = {}
        self._interrupted: dict[bytes, _Place] = {}
        self._anywhere: set[bytes] = set()
        """Digests of what was asked for and is done on some machine."""
        self._names: dict[int, str] = {}

    def add(self, source: Source) -> None:
        """Enter a source's records. Raises UsageError for one that is done in an earlier source too, naming key and both."""
        self._names[source.number] = source.name
        done: dict[bytes, _Place] = {}
        interrupted: dict[bytes, _Place] = {}
        for line, _, record in source.records():
            self.schemas.setdefault(record.schema, source)
            if machine := source.machine_of(record):
                self.machines[machine] = None
            is_planned = record.role is Role.PROVIDER
            place = _Place(source=source.number, line=line, is_planned=is_planned, is_asked=source.was_asked(record))
            # Within one file the last line wins: a run that was resumed has both.
            if record.status is Status.INTERRUPTED:
                interrupted[_asked(record)] = place
                continue
            interrupted.pop(_asked(record), None)
            key = _key(record, source)
            self._refuse_twice(record, place, self._done.get(key))
            done[key] = place
            self._anywhere.add(_asked(record))
        for key, place in done.items():
            self._keep(self._done, key, place)
        for key, place in interrupted.items():
            self._keep(self._interrupted, key, place)

    def _refuse_twice(self, record: Record, place: _Place, known: _Place | None) -> None:
        if known is not None and known.is_asked and place.is_asked:
            raise UsageError(
                f"{record.asked} was measured on the same machine in run {self._names[known.source]} and in run "
                f"{self._names[place.source]}: which of the two counts cannot be told; leave out one of the runs"
            )

    def _keep(self, places: dict[bytes, _Place], key: bytes, place: _Place) -> None:
        if places.setdefault(key, place) is not place:
            self._drop(place)
            self.came_along += place.is_planned and places is self._done

    def _drop(self, place: _Place) -> None:
        self.dropped += place.is_planned

    def settle(self) -> None:
        """Let what is done win over what is interrupted, once all sources are entered."""
        for key in self._interrupted.keys() & self._anywhere:
            self._drop(self._interrupted.pop(key))

    @property
    def interrupted(self) -> int:
        """Return how many records of providers are interrupted in every source that has them."""
        return sum(place.is_planned for place in self._interrupted.values())

    def keeps(self, source: Source, line: int, record: Record) -> bool:
        """Say whether a record is kept from this line of this source."""
        is_interrupted = record.status is Status.INTERRUPTED
        place = self._interrupted.get(_asked(record)) if is_interrupted else self._done.get(_key(record, source))
        return place is not None and (place.source, place.line) == (source.number, line)


def _key(record: Record, source: Source) -> bytes:
    return _digest(f"{record.asked}@{source.machine_of(record)}")


def _asked(record: Record) -> bytes:
    return _digest(record.asked)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
