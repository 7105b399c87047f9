"""A request measured on a cluster into one run on disk, each record with the machine that took it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from ..cases.case import Case
from ..cases.model_case import ModelCase
from ..job.request import Request
from ..job.run import ROTATION, Keeper, Observer, SilentObserver, add_norms, unmeasured_records
from ..job.shard import units_of
from ..measure.group import Group
from ..records.record import Record, Status
from ..storage.stored_run import Machine
from .dispatch import Cluster, dispatch
from .station import Introduction

__all__ = ["Fleet", "FleetObserver", "execute_on"]


class Fleet(Cluster, Protocol):
    """Be a cluster that says what its nodes are, from being entered to being left."""

    @property
    def notes(self) -> list[str]: ...
    @property
    def machines(self) -> dict[str, Introduction]: ...
    def norms_of(self, cases: Sequence[ModelCase]) -> dict[ModelCase, dict[Case, int]]: ...
    def __enter__(self) -> Fleet: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class FleetObserver(Observer, Protocol):
    """Be told how a run goes, and which node is at what."""

    def task_started(self, node: str, groups: Sequence[Group]) -> None: ...


class _Silent(SilentObserver):
    def task_started(self, node: str, groups: Sequence[Group]) -> None:
        pass


def execute_on(fleet: Callable[[], Fleet], request: Request, observer: FleetObserver | None = None) -> tuple[Path, bool]:
    """Run a request on a cluster to its end and return the run's directory and whether every record was measured or lawfully not.

    Raises KeyboardInterrupt after everything measured was kept, NormbenchError likewise when no node is left, and UsageError before a
    run is created for what cannot work.
    """
    request.validate()
    with fleet() as cluster:
        return _Conduct(request, cluster, observer or _Silent()).execute()


class _Conduct:
    """Have a cluster measure a request and keep what comes from it."""

    def __init__(self, request: Request, cluster: Fleet, observer: FleetObserver) -> None:
        self._request = request
        self._cluster = cluster
        self._observer = observer
        self._groups, self._beside = self._plan()
        # Records name the machines that took them, so the run may be gone on with from another than it was begun on.
        self._keeper = Keeper(request, self._groups, device={"type": request.device}, command="normbench run --ray ADDRESS")
        self._noted = 0

    def _plan(self) -> tuple[list[Group], dict[str, list[Group]]]:
        groups = self._request.groups()
        cases = list(dict.fromkeys(arm.case for group in groups for arm in group.arms if isinstance(arm.case, ModelCase)))
        return add_norms(groups, self._cluster.norms_of(cases)) if cases else (groups, {})

    def execute(self) -> tuple[Path, bool]:
        left = {group.id for group in self._groups if not self._keeper.is_done(group)}
        self._observer.started(self._groups, len(self._groups) - len(left))
        units = [[group for group in unit if group.id in left] for unit in units_of(self._groups, self._beside)]
        with self._keeper:
            try:
                dispatch(
                    [unit for unit in units if unit],
                    self._cluster,
                    most=ROTATION,
                    on_start=self._started,
                    on_done=self._finish,
                    on_failed=self._fail,
                )
            finally:
                self._note()
        return self._keeper.writer.path, self._keeper.is_sound

    def _started(self, seat: str, groups: Sequence[Group]) -> None:
        self._note()
        self._observer.task_started(seat, groups)

    def _finish(self, group: Group, records: Sequence[Record]) -> None:
        for name in dict.fromkeys(record.machine for record in records):
            found = self._cluster.machines[name]
            self._keeper.writer.add_machine(name, Machine(machine=found.machine, versions=dict(found.versions)))
        self._keeper.keep(records)
        self._observer.group_done(group, records)

    def _fail(self, seat: str, group: Group, reason: str) -> None:
        records = unmeasured_records(group, Status.ERROR, reason, seed=self._request.plan.seed)
        self._keeper.keep(records)
        self._observer.group_done(group, records)

    def _note(self) -> None:
        """Write down what the cluster says of nodes that were left out or lost, each sentence once."""
        for note in self._cluster.notes[self._noted :]:
            self._keeper.writer.note(note)
            self._noted += 1
