"""The main job: cases and providers in, a run on disk out. Used by the command line, the pytest plugin and the studies alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from .errors import UsageError
from .measure.group import Group
from .measure.machine import git_commit, machine_identity, machine_record, package_versions
from .measure.measurer import Live, Measurer
from .record import Record, Role, Status
from .request import Request
from .store import RunWriter, read_run

__all__ = ["Observer", "Runner", "SilentObserver", "execute"]


ROTATION = 8
"""Groups measured in rotation. More would spread a case's blocks over more of the machine's moods; a run that is killed loses the
blocks of undecided groups, a minute's worth or so with eight."""


class Observer(Protocol):
    """Be told how a run goes."""

    def started(self, groups: Sequence[Group], done: int) -> None: ...
    def group_started(self, group: Group) -> None: ...
    def block_done(self, live: Live) -> None: ...
    def group_done(self, group: Group, records: Sequence[Record]) -> None: ...


class SilentObserver:
    """Tell nobody."""

    def started(self, groups: Sequence[Group], done: int) -> None:
        pass

    def group_started(self, group: Group) -> None:
        pass

    def block_done(self, live: Live) -> None:
        pass

    def group_done(self, group: Group, records: Sequence[Record]) -> None:
        pass


class Runner:
    """Measure groups one by one into a run on disk, each at most once. A context manager.

    Leaving it finishes the run; leaving it by an exception (Ctrl-C too) records what was not reached as interrupted first. Raises
    UsageError on entry for input that cannot work, before a run is created.
    """

    def __init__(self, request: Request, observer: Observer | None = None, *, groups: Sequence[Group] | None = None) -> None:
        """Prepare to measure `groups`, which default to everything the request asks for."""
        self._request = request
        self._observer = observer or SilentObserver()
        request.validate()
        self.groups = list(groups) if groups is not None else request.groups()
        self._records: dict[str, Record] = {}

    def __enter__(self) -> Runner:
        request = self._request
        log = _log_path(Path(request.root))
        self._measurer = Measurer(request.providers, device=request.device, plan=request.plan, log=log)
        try:
            self._writer = self._open_run(self._measurer.device)
        except BaseException:
            self._measurer.close()
            raise
        done = sum(self.is_done(group) for group in self.groups)
        self._observer.started(self.groups, done)
        return self

    def _open_run(self, device: Mapping[str, Any]) -> RunWriter:
        request = self._request
        if request.resume is not None:
            writer = RunWriter.resume(request.resume, root=request.root)
            self._refuse_foreign(writer)
            self._records = {key: record for key, record in writer.done.items() if record.status is not Status.INTERRUPTED}
            return writer
        return RunWriter.create(
            request.label,
            command=list(request.command),
            seed=request.plan.seed,
            planned=sum(len(group.providers) for group in self.groups),
            settings=self._settings(),
            machine=machine_record() | {"device": dict(device)},
            versions=package_versions(),
            git_commit=git_commit(Path(__file__).parent),
            root=request.root,
        )

    def _settings(self) -> dict[str, Any]:
        request: dict[str, Any] = msgspec.to_builtins(self._request)
        conditions = [conditions.id for conditions in self._request.conditions()]
        return {"plan": request["plan"], "conditions": conditions, "request": request}

    def _refuse_foreign(self, writer: RunWriter) -> None:
        """Raise UsageError when a run to be resumed was taken on another machine."""
        here, there = machine_identity(machine_record()), machine_identity(writer.info.machine)
        if here != there:
            raise UsageError(f"run {writer.info.id} was taken on another machine ({there}, this one is {here}): start a new run here")

    @property
    def run_path(self) -> Path:
        return self._writer.path

    def is_done(self, group: Group) -> bool:
        """Say whether every record of the group is there already."""
        return group.record_keys() <= self._records.keys()

    def measure(self, group: Group) -> list[Record]:
        """Return the records of a group, measuring it unless that was done before; they are on disk when this returns.

        It is measured in rotation with those that come after it, so that asking for all groups in order measures each just once.
        """
        if not self.is_done(group):
            waiting = [group, *(later for later in self.groups if later != group and not self.is_done(later))]
            self._measurer.measure_all(
                waiting[:ROTATION],
                on_start=self._observer.group_started,
                on_block=self._observer.block_done,
                on_done=self._finish,
            )
        return [record for key, record in self._records.items() if key.startswith(f"{group.id}#")]

    def _finish(self, group: Group, records: Sequence[Record]) -> None:
        self._keep(records)
        self._observer.group_done(group, records)

    def _keep(self, records: Sequence[Record]) -> None:
        self._writer.append(*records)
        self._records |= {record.key: record for record in records}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._measurer.close()
        try:
            if kind is not None:
                self._record_interrupted(kind)
        finally:
            self._writer.__exit__(kind, error, trace)  # type: ignore[arg-type]

    def _record_interrupted(self, kind: type[BaseException]) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        # As the file says, not as this object does: Ctrl-C may have come between writing a record and noting that it was written.
        written = {record.key for record in read_run(self._writer.path).records}
        for group in self.groups:
            missing = [name for name in group.providers if f"{group.id}#{name}" not in written]
            if not missing:
                continue
            self._keep(
                [
                    Record(
                        case_id=group.case.id,
                        case=group.case,
                        conditions=group.conditions,
                        provider=name,
                        status=Status.INTERRUPTED,
                        reason=f"the run was stopped ({kind.__name__}) before this was measured",
                        group="",
                        started_at=now,
                        seed=self._request.plan.seed,
                    )
                    for name in missing
                ]
            )


def _log_path(root: Path) -> Path:
    """Return the file that measuring processes print to. Raises UsageError when the folder of runs cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = root / "worker.log"
        path.touch()
    except OSError as error:
        raise UsageError(f"output folder {str(root)!r} cannot be written ({error.strerror}); name another with --out") from error
    return path


def execute(request: Request, observer: Observer | None = None) -> tuple[Path, bool]:
    """Run a request to its end and return the run's directory and whether every record was measured or lawfully not.

    Raises KeyboardInterrupt after everything measured was kept.
    """
    with Runner(request, observer) as runner:
        records = [record for group in runner.groups for record in runner.measure(group)]
        path = runner.run_path
    failed = {Status.WRONG, Status.ERROR, Status.INTERRUPTED}
    return path, not any(record.status in failed for record in records if record.role is Role.PROVIDER)
