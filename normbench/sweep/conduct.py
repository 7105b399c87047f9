"""Run a sweep: check every arm, try batches until the largest that fits is found, then run the arms side by side; keep all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from statistics import median
from typing import Any, Protocol

from ..cases.throughput_case import ThroughputCase
from ..errors import NormbenchError
from ..measure.checking import CheckResult, CheckTask
from ..measure.plan import stop_reason
from ..measure.process import status_of
from ..records.record import Status
from .entry import Check, Entry, Point, SideBySide, Verdict
from .journal import SweepJournal
from .question import Arm
from .search import Search
from .turns import TurnsResult, TurnsTask

__all__ = ["Engine", "Observer", "conduct"]

_CHECK = f"{CheckTask.__module__.rpartition('.')[0]}.network_checking:check_networks"
_TURNS = f"{TurnsTask.__module__}:take_turns"


class Engine(Protocol):
    """Run tasks in processes of their own: what a sweep needs of a `Measurer`."""

    def load_networks(self, cases: Iterable[ThroughputCase]) -> None: ...

    def run_task(self, task: str, argument: Any) -> list[Any]: ...


class Observer:
    """Hear what a sweep is about to do and what it found. Does nothing; override what is wanted."""

    def doing(self, what: str) -> None:
        """Hear what is done next, in words."""

    def found(self, entry: Entry) -> None:
        """Hear of an entry that was just kept."""


def conduct(journal: SweepJournal, engine: Engine, observer: Observer) -> None:
    """Do what the journal's question asks and is not in it yet. A KeyboardInterrupt passes through; what was kept is kept."""
    companies = journal.header.question.companies
    engine.load_networks(arm.case for arms in companies.values() for arm in arms)
    for company, arms in companies.items():
        _Company(company, arms, journal, engine, observer).run()


class _Company:
    """Sweep arms that differ in norm and provider only: a batch of each in turn, so that a drift of the machine meets all of them."""

    def __init__(self, name: str, arms: Sequence[Arm], journal: SweepJournal, engine: Engine, observer: Observer) -> None:
        self._name = name
        self._arms = arms
        self._journal = journal
        self._engine = engine
        self._observer = observer
        self._question = journal.header.question
        self._plan = self._question.plan

    def run(self) -> None:
        searches = {arm.key: self._question.search() for arm in self._arms}
        stopped = set()
        for one in self._journal.entries:
            if isinstance(one, Point) and one.arm in searches:
                if one.verdict is Verdict.FAILED:
                    stopped.add(one.arm)
                else:
                    searches[one.arm].tell(one.batch, one.verdict is Verdict.FITS)
        waiting = [arm for arm in self._arms if self._passed(arm)]
        while waiting := [arm for arm in waiting if arm.key not in stopped and searches[arm.key].next is not None]:
            for arm in waiting:
                batch = searches[arm.key].next
                assert batch is not None, arm.key
                point = self._try(arm, batch)
                self._keep(point)
                if point.verdict is Verdict.FAILED:
                    stopped.add(point.arm)
                else:
                    searches[point.arm].tell(batch, point.verdict is Verdict.FITS)
        self._measure_side_by_side(searches)

    def _keep(self, entry: Entry) -> None:
        self._journal.append(entry)
        self._observer.found(entry)

    def _passed(self, arm: Arm) -> bool:
        """Check an arm against float64 at the batch that its search begins with, unless that was done, and say whether it may be swept."""
        key = arm.key
        for one in self._journal.entries:
            if isinstance(one, Check) and one.arm == key:
                return one.status is Status.OK
        self._observer.doing(f"{arm.case.id} by {arm.provider}: checking against float64")
        task = CheckTask(case=arm.case, conditions=self._question.conditions, providers=(arm.name,), seed=self._question.seed)
        try:
            (result,) = (one for one in self._engine.run_task(_CHECK, task) if isinstance(one, CheckResult))
            check = Check(arm=key, status=result.status, reason=result.reason)
        except NormbenchError as error:
            check = Check(arm=key, status=status_of(error), reason=f"while it was checked: {error}")
        self._keep(check)
        return check.status is Status.OK

    def _try(self, arm: Arm, batch: int) -> Point:
        """Run an arm by itself at a batch."""
        case = arm.at(batch)
        self._observer.doing(f"{case.id} by {arm.provider}")
        try:
            results = self._processes(case, (arm.name,))
        except NormbenchError as error:
            return Point(arm=arm.key, batch=batch, tokens=case.tokens, verdict=_verdict_of(error), reason=str(error))
        peaks = [one.peak_bytes for one in results if one.peak_bytes is not None]
        return Point(
            arm=arm.key,
            batch=batch,
            tokens=case.tokens,
            verdict=Verdict.FITS,
            samples_s=tuple(one.samples_s[arm.name] for one in results),
            peak_bytes=max(peaks, default=None),
        )

    def _processes(self, case: ThroughputCase, names: tuple[str, ...]) -> list[TurnsResult]:
        """Return what each process gave; there are as many as the plan asks for. Raises NormbenchError when one fails."""
        results: list[TurnsResult] = []
        while True:
            task = TurnsTask(
                case=case,
                conditions=self._question.conditions,
                arms=names,
                plan=self._plan,
                seed=self._plan.seed + 1000 * (len(results) + 1),
                limit_bytes=self._journal.header.limit.limit_bytes,
                is_thorough=not results,
            )
            results += self._engine.run_task(_TURNS, task)
            logs = {name: [log(median(one.samples_s[name])) for one in results] for name in names}
            if stop_reason(self._plan, logs, sum(one.spent_s for one in results)) is not None:
                return results

    def _measure_side_by_side(self, searches: dict[str, Search]) -> None:
        """Run all arms that fit in turn, at the largest batch that each of them fits, or the next half of it that all fit together."""
        fitting = [arm for arm in self._arms if searches[arm.key].largest is not None]
        is_done = any(isinstance(one, SideBySide) and one.company == self._name for one in self._journal.entries)
        if is_done or len(fitting) < 2:
            return
        names = tuple(arm.name for arm in fitting)
        batch = min(searches[arm.key].largest or 0 for arm in fitting)
        tried: list[int] = []
        while True:
            case = fitting[0].at(batch)
            self._observer.doing(f"{case.company}: {len(names)} arms side by side")
            try:
                results = self._processes(case, names)
            except NormbenchError as error:
                if _verdict_of(error) is Verdict.OUT_OF_MEMORY and batch > 1:
                    tried.append(batch)
                    batch //= 2
                    continue
                self._keep(SideBySide(company=self._name, batch=batch, tokens=case.tokens, tried=tuple(tried), reason=str(error)))
                return
            samples = {name: tuple(one.samples_s[name] for one in results) for name in names}
            self._keep(SideBySide(company=self._name, batch=batch, tokens=case.tokens, samples_s=samples, tried=tuple(tried)))
            return


def _verdict_of(error: NormbenchError) -> Verdict:
    """Say whether a process failed for lack of memory."""
    return Verdict.OUT_OF_MEMORY if status_of(error) is Status.OOM else Verdict.FAILED
