"""The main job: cases and providers in, a run on disk out. Used by the command line, the pytest plugin and the studies alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from ..cases.case import Case
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..errors import UsageError
from ..host.machine import git_commit, machine_identity, machine_record, package_versions
from ..measure.group import Group
from ..measure.measurer import Measurer
from ..measure.rotating import Live
from ..records.record import Record, Role, Status
from ..storage.store import RunWriter
from ..storage.stored_run import find_run, read_run
from .request import Request

__all__ = ["ROTATION", "Keeper", "Observer", "Runner", "SilentObserver", "add_norms", "create_run", "execute", "unmeasured_records"]


ROTATION = 8
"""Groups measured in rotation. More would spread a case's blocks over more of the machine's moods; a run that is killed loses the
blocks of undecided groups, a minute's worth or so with eight."""

NORM_SHARE = 0.25
"""Part of the budget that each norm of a network gets, alone: its calls take microseconds, and there are many such cases."""


OpenMeasurer = Callable[..., Measurer]
"""Takes what `Measurer` takes."""


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


class Keeper:
    """Keep the records of groups in a run on disk: a new one, or the one that a request goes on with. A context manager.

    Leaving it finishes the run; leaving it by an exception (Ctrl-C too) records what was not reached as interrupted first, and says
    that `command` goes on. `found` are the records that the run had and that need not be measured again, by what was asked for.
    `is_sound` says whether every record so far was measured, or lawfully was not.
    """

    def __init__(self, request: Request, groups: Sequence[Group], *, device: Mapping[str, Any], command: str) -> None:
        self._groups = groups
        self._seed = request.plan.seed
        self._command = command
        if request.resume is None:
            self.writer = create_run(request, groups, device=device)
        else:
            self.writer = RunWriter.resume(request.resume, root=request.root)
        self.found = {record.asked: record for record in self.writer.done.values() if record.status is not Status.INTERRUPTED}
        self.is_sound = all(map(_is_sound, self.found.values()))
        self._done = set(self.found)

    def is_done(self, group: Group) -> bool:
        """Say whether every record of the group is there already."""
        return group.record_keys() <= self._done

    def keep(self, records: Sequence[Record]) -> None:
        """Add records; they are on disk when this returns."""
        self.writer.append(*records)
        self._done.update(record.asked for record in records)
        self.is_sound = self.is_sound and all(map(_is_sound, records))

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            error.add_note(f"what was measured is kept, and `{self._command} --resume {self.writer.path}` goes on")
        try:
            if kind is not None:
                self._record_interrupted(kind)
        finally:
            self.writer.__exit__(kind, error, trace)

    def _record_interrupted(self, kind: type[BaseException]) -> None:
        reason = f"the run was stopped ({kind.__name__}) before this was measured"
        # As the file says, not as this object does: Ctrl-C may have come between writing a record and noting that it was written.
        written = {record.asked for record in read_run(self.writer.path).records}
        for group in self._groups:
            records = unmeasured_records(group, Status.INTERRUPTED, reason, seed=self._seed)
            if left := [record for record in records if record.asked not in written]:
                self.writer.append(*left)


class Runner:
    """Measure groups one by one into a run on disk, each at most once. A context manager.

    Leaving it finishes the run; leaving it by an exception (Ctrl-C too) records what was not reached as interrupted first. Raises
    UsageError on entry for input that cannot work, before a run is created.
    """

    def __init__(
        self,
        request: Request,
        observer: Observer | None = None,
        *,
        groups: Sequence[Group] | None = None,
        measurer: OpenMeasurer = Measurer,
    ) -> None:
        """Prepare to measure `groups`, which default to everything the request asks for, by what `measurer` opens."""
        self._request = request
        self._observer = observer or SilentObserver()
        request.validate()
        if request.processes > 1 and measurer is Measurer:
            raise UsageError(f"{request.processes} processes are measured by `normbench run --nproc` and torchrun alone: leave nproc out")
        self._open_measurer = measurer
        self.groups = list(groups) if groups is not None else request.groups()
        self._beside: dict[str, list[Group]] = {}
        self._records: dict[str, Record] = {}

    def __enter__(self) -> Runner:
        request = self._request
        log = _log_path(Path(request.root))
        self._measurer = self._open_measurer(request.providers, device=request.device, plan=request.plan, log=log)
        try:
            self._add_norms_of_networks()
            self._keeper = self._open_run(self._measurer.device)
        except BaseException:
            self._measurer.close()
            raise
        self._records = dict(self._keeper.found)
        done = sum(self.is_done(group) for group in self.groups)
        self._observer.started(self.groups, done)
        return self

    def _add_norms_of_networks(self) -> None:
        """Plan the op tier's cases of every network's norms behind that network: what is saved alone, beside what is saved in it."""
        self._measurer.load_networks(arm.case for group in self.groups for arm in group.arms if isinstance(arm.case, ThroughputCase))
        cases = list(dict.fromkeys(arm.case for group in self.groups for arm in group.arms if isinstance(arm.case, ModelCase)))
        if not cases:
            return
        self.groups, self._beside = add_norms(self.groups, self._measurer.norms_of(cases))

    def _open_run(self, device: Mapping[str, Any]) -> Keeper:
        """Return what keeps this run. Raises UsageError when one to be resumed was taken on another machine."""
        request = self._request
        if request.resume is not None:
            _, info = find_run(request.resume, root=request.root)
            here, there = machine_identity(machine_record()), machine_identity(info.machine)
            if here != there:
                raise UsageError(f"run {info.id} was taken on another machine ({there}, this one is {here}): start a new run here")
        return Keeper(request, self.groups, device=device, command="normbench run")

    @property
    def run_path(self) -> Path:
        return self._keeper.writer.path

    @property
    def is_sound(self) -> bool:
        """Say whether every record so far was measured, or lawfully was not."""
        return self._keeper.is_sound

    def is_done(self, group: Group) -> bool:
        """Say whether every record of the group is there already."""
        return self._keeper.is_done(group)

    def measure(self, group: Group) -> list[Record]:
        """Return the records of a group, measuring it unless that was done before; they are on disk when this returns.

        With it are measured the norms of its network, if it is one. It is measured in rotation with those that come after it, so that
        asking for all groups in order measures each just once.
        """
        asked = [one for one in (group, *self._beside.get(group.id, ())) if not self.is_done(one)]
        if asked:
            later = [one for one in self.groups if one not in asked and not self.is_done(one)]
            self._measurer.measure_all(
                [*asked, *later][: max(ROTATION, len(asked))],
                on_start=self._observer.group_started,
                on_block=self._observer.block_done,
                on_done=self._finish,
            )
        keys = group.record_keys()
        together = {record.group for key, record in self._records.items() if key in keys and record.group}
        return [record for key, record in self._records.items() if key in keys or record.group in together]

    def _finish(self, group: Group, records: Sequence[Record]) -> None:
        self._keeper.keep(records)
        self._records |= {record.asked: record for record in records}
        self._observer.group_done(group, records)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._measurer.close()
        self._keeper.__exit__(kind, error, trace)


def add_norms(groups: Sequence[Group], norms: Mapping[ModelCase, Iterable[Case]]) -> tuple[list[Group], dict[str, list[Group]]]:
    """Return the groups with the op tier's cases of each network's norms behind that network, and those cases by the network's group.

    `norms` holds the norm calls of every network in the groups.
    """
    planned = {group.id: group for group in groups}
    beside: dict[str, list[Group]] = {}
    for group in groups:
        providers = tuple(dict.fromkeys(arm.provider for arm in group.arms))
        for case in dict.fromkeys(arm.case for arm in group.arms if isinstance(arm.case, ModelCase)):
            alone = [Group.of([one], group.conditions, providers, share=NORM_SHARE) for one in norms[case]]
            beside.setdefault(group.id, []).extend(planned.setdefault(one.id, one) for one in alone)
    return list(dict.fromkeys(one for group in groups for one in (group, *beside.get(group.id, ())))), beside


def create_run(request: Request, groups: Sequence[Group], *, device: Mapping[str, Any]) -> RunWriter:
    """Make the folder of a run of these groups, with what is known of this machine and of the device that is measured on."""
    asked: dict[str, Any] = msgspec.to_builtins(request)
    return RunWriter.create(
        request.label,
        command=list(request.command),
        seed=request.plan.seed,
        planned=sum(len(group.arms) for group in groups),
        settings={"plan": asked["plan"], "conditions": [conditions.id for conditions in request.conditions()], "request": asked},
        machine=machine_record() | {"device": dict(device)},
        versions=package_versions(),
        git_commit=git_commit(Path(__file__).parent),
        root=request.root,
    )


def unmeasured_records(group: Group, status: Status, reason: str, *, seed: int) -> list[Record]:
    """Return a record for each arm of a group that nobody got to measure."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return [
        Record(
            case_id=arm.case.id,
            case=arm.case,
            conditions=group.conditions,
            provider=arm.provider,
            status=status,
            reason=reason,
            group="",
            started_at=now,
            seed=seed,
        )
        for arm in group.arms
    ]


def _log_path(root: Path) -> Path:
    """Return the file that measuring processes print to. Raises UsageError when the folder of runs cannot be written."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = root / "worker.log"
        path.touch()
    except OSError as error:
        raise UsageError(f"output folder {str(root)!r} cannot be written ({error.strerror}); name another with --out") from error
    return path


def execute(request: Request, observer: Observer | None = None, *, measurer: OpenMeasurer = Measurer) -> tuple[Path, bool]:
    """Run a request to its end and return the run's directory and whether every record was measured or lawfully not.

    Raises KeyboardInterrupt after everything measured was kept.
    """
    with Runner(request, observer, measurer=measurer) as runner:
        for group in runner.groups:
            runner.measure(group)
    return runner.run_path, runner.is_sound


def _is_sound(record: Record) -> bool:
    """Say whether a record is a control's, was measured, or lawfully was not."""
    return record.role is not Role.PROVIDER or record.status not in (Status.WRONG, Status.ERROR, Status.INTERRUPTED)
