"""Whole runs of the gate on code that is the same, and on code made slower by a known amount, kept on disk as they come."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from ..cases.conditions import Conditions
from ..errors import UsageError
from ..storage.files import make_directory
from .archive import Archive, read_blocks
from .conduct import Observer, Question, conduct
from .injection import Size, extra_turns, measure_sizes, write_subjects
from .outcome import Outcome, RunEnd
from .policy import Policy
from .standing import BlockSamples
from .stored_validation import GATES, JOURNALS, About, Subject, Trial
from .trees import folder_tree
from .validation import GateRun
from .words import controls

__all__ = ["Trials", "validate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Say what to try: `runs` whole runs for each of the slow-downs, of which 0 stands for the same code."""

    subjects: tuple[Subject, ...]
    slowdowns: tuple[float, ...]
    runs: int
    policy: Policy
    conditions: Conditions
    budget_s: float
    seed: int

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise UsageError(f"{self.runs} runs are none: give at least 1")
        if not self.slowdowns or not all(0 <= one < 1 for one in self.slowdowns):
            raise UsageError(f"{self.slowdowns!r} are no slow-downs: give shares from 0 to below 1, such as 0,3,5 for 0, 3 and 5 %")
        if any(self.slowdowns) and any(not one.case.pass_.has_forward for one in self.subjects):
            raise UsageError("a slow-down is added to the forward call, which `backward` does not time: give other passes, or inject 0")

    def order(self) -> Iterator[tuple[float, Subject | None]]:
        """Yield size and case of each run's slow-down: in every round each size once, in random order, the cases in turn."""
        rng = Random(self.seed)
        for number in range(self.runs):
            for slowdown in rng.sample(self.slowdowns, len(self.slowdowns)):
                yield slowdown, self.subjects[(self.seed + number) % len(self.subjects)] if slowdown else None


def validate(
    trials: Trials,
    *,
    root: Path,
    command: Sequence[str],
    machine: Mapping[str, Any],
    versions: Mapping[str, Any],
    observer: Callable[[Trial, Outcome], None],
    watched: Callable[[Question], Any],
) -> Path:
    """Run all trials one after the other and return the folder that holds them. Ctrl-C passes through; finished runs are kept.

    `observer` hears of each run when it is done; `watched` is given each run's question and returns a context manager that yields
    the Observer of its blocks.
    """
    path = make_directory("validation", root, f"{datetime.now(UTC):%Y%m%dT%H%M%S}")
    log = path / "worker.log"
    log.touch()
    subjects = [(one.provider, one.case) for one in trials.subjects]
    sizes = measure_sizes(subjects, trials.conditions, seed=trials.seed, log=log) if any(trials.slowdowns) else {}
    about = About(
        command=tuple(command),
        machine=dict(machine),
        versions=dict(versions),
        policy=trials.policy,
        conditions=trials.conditions,
        budget_s=trials.budget_s,
        subjects=trials.subjects,
        sizes={f"{case}@{provider}": size for (provider, case), size in sizes.items()},
    )
    with JOURNALS.open(path, about, resume=False) as journal:
        for number, (slowdown, slowed) in enumerate(trials.order()):
            with _trees(trials, sizes, slowdown, slowed) as (base, head, true):
                trial, outcome = _run(trials, number, base, head, path=path, watched=watched, asked=slowdown, true=true, slowed=slowed)
            if outcome.end is RunEnd.INTERRUPTED:
                # What was cut short found nothing and missed nothing.
                raise KeyboardInterrupt
            journal.append(trial)
            observer(trial, outcome)
    return path


@contextmanager
def _trees(
    trials: Trials, sizes: Mapping[tuple[str, str], Size], slowdown: float, slowed: Subject | None
) -> Iterator[tuple[Path, Path, float]]:
    """Yield the folders of base and head and the true size of what head was given."""
    turns, true = {}, 0.0
    if slowed is not None:
        key = (slowed.provider, slowed.case.id)
        turns[key] = extra_turns(sizes[key], slowdown)
        true = sizes[key].slowdown(turns[key])
    with tempfile.TemporaryDirectory(prefix="normbench-validation-") as folder:
        base, head = write_subjects(Path(folder), [one.provider for one in trials.subjects], turns)
        yield base, head, true


def _run(
    trials: Trials,
    number: int,
    base: Path,
    head: Path,
    *,
    path: Path,
    watched: Callable[[Question], Any],
    asked: float,
    true: float,
    slowed: Subject | None,
) -> tuple[Trial, Outcome]:
    started = datetime.now(UTC)
    about = {"policy": trials.policy, "asked": asked, "slowdown": true, "slowed": slowed.id if slowed else None}
    with Archive(path / GATES, about) as archive:
        question = Question(
            base=folder_tree(base),
            head=folder_tree(head),
            candidates=tuple(one.candidate for one in trials.subjects),
            controls=controls(),
            conditions=trials.conditions,
            policy=trials.policy,
            budget_s=trials.budget_s,
            seed=trials.seed + number,
            log=archive.path / "worker.log",
        )
        with watched(question) as observer:
            outcome = conduct(question, _keeping(observer, archive))
        archive.conclude(outcome)
    blocks = read_blocks(archive.path)
    names = {one.candidate.id: one.id for one in trials.subjects}
    logs = {
        name: tuple(log for block in blocks.get(candidate, ()) if (log := block.log_ratio) is not None) for candidate, name in names.items()
    }
    run = GateRun(
        policy=trials.policy,
        cases=len(question.candidates) + len(question.controls),
        logs=logs,
        verdicts={names[one.case]: one.decision.verdict for one in outcome.cases},
        asked=asked,
        slowdown=true,
        slowed=slowed.id if slowed else None,
        seconds=(datetime.now(UTC) - started).total_seconds(),
    )
    return Trial(run=run, exit_code=outcome.exit_code, folder=archive.path.name, started_at=started.isoformat(timespec="seconds")), outcome


def _keeping(observer: Observer, archive: Archive) -> Observer:
    """Return an observer that also keeps every block on disk."""

    def block(samples: BlockSamples) -> None:
        archive.append(samples)
        observer.block(samples)

    return Observer(phase=observer.phase, step=observer.step, block=block, decided=observer.decided)
