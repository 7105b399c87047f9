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

import msgspec

from ..case import Case
from ..catalogue import REQUIREMENTS
from ..conditions import Conditions
from ..errors import UsageError
from ..files import explained, make_directory, write_all, write_atomically
from .archive import Archive, read_blocks
from .conduct import Observer, Question, conduct
from .injection import Size, extra_turns, measure_sizes, subject_spec, write_subjects
from .outcome import ExitCode, Outcome, RunEnd
from .peers import calls
from .policy import Policy
from .process import CONTROL, Candidate
from .standing import BlockSamples
from .trees import folder_tree
from .validation import GateRun, PeerSample
from .words import controls

__all__ = ["About", "Subject", "Trial", "Trials", "Validation", "merged", "peer_samples", "read_validation", "validate"]

_ABOUT, _TRIALS, _GATES = "validation.json", "trials.jsonl", "gates"
INTERLEAVED, SEQUENTIAL = "taking turns", "one after the other"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Name a case and the provider that computes it in both arms."""

    provider: str
    case: Case

    @property
    def id(self) -> str:
        return f"{self.case.id}@{self.provider}"

    @property
    def candidate(self) -> Candidate:
        spec = subject_spec(self.provider)
        return Candidate(case=self.case, base_spec=spec, head_spec=spec)


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Say what was validated, where, and what a call and a turn of the added loop took, by the case's id."""

    command: tuple[str, ...]
    machine: dict[str, Any]
    versions: dict[str, Any]
    policy: Policy
    conditions: Conditions
    budget_s: float
    subjects: tuple[Subject, ...]
    sizes: dict[str, Size]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one whole run: what the gate decided, how it ended, and in which folder its raw blocks are."""

    run: GateRun
    exit_code: ExitCode
    folder: str
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Hold a validation as it stands on disk; `paths` are its folders, several where pieces were merged."""

    about: About
    trials: tuple[Trial, ...]
    paths: tuple[Path, ...]


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
    with explained(f"{path} cannot be written"):
        write_atomically(path / _ABOUT, msgspec.json.format(msgspec.json.encode(about), indent=2))
    for number, (slowdown, slowed) in enumerate(trials.order()):
        with _trees(trials, sizes, slowdown, slowed) as (base, head, true):
            trial, outcome = _run(trials, number, base, head, path=path, watched=watched, asked=slowdown, true=true, slowed=slowed)
        if outcome.end is RunEnd.INTERRUPTED:
            # What was cut short found nothing and missed nothing.
            raise KeyboardInterrupt
        with explained(f"{path / _TRIALS} cannot be written"), (path / _TRIALS).open("ab") as file:
            write_all(file.fileno(), msgspec.json.encode(trial) + b"\n")
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
    with Archive(path / _GATES, about) as archive:
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


def read_validation(path: Path) -> Validation:
    """Read a validation, finished or not. Raises UsageError where there is none."""
    file = path / _ABOUT
    if not file.is_file():
        raise UsageError(f"{path} is no validation: it has no {_ABOUT}")
    try:
        about = msgspec.json.decode(file.read_bytes(), type=About)
        lines = (path / _TRIALS).read_bytes().splitlines() if (path / _TRIALS).is_file() else []
        trials = tuple(msgspec.json.decode(line, type=Trial) for line in lines)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} cannot be read as a validation of this version: {error}") from None
    return Validation(about=about, trials=trials, paths=(path,))


def _versions_that_count(about: About) -> dict[str, Any]:
    """Return the versions of all packages but those of optional providers that none of the cases is by: they were never called."""
    by = {subject.provider for subject in about.subjects}
    packages = {name: {module.replace("_", "-") for module in need.modules} for name, need in REQUIREMENTS.items()}
    called = {package for name in by & packages.keys() for package in packages[name]}
    idle = {package for names in packages.values() for package in names} - called
    return {name: version for name, version in about.versions.items() if name not in idle}


def merged(pieces: Sequence[Validation]) -> Validation:
    """Join validations that were run in pieces. Raises UsageError naming the first thing that is not the same in all."""
    first = pieces[0]
    for piece in pieces[1:]:
        for field in ("policy", "conditions", "budget_s", "subjects", "versions"):
            one, other = (
                _versions_that_count(about) if field == "versions" else getattr(about, field) for about in (first.about, piece.about)
            )
            if one != other:
                raise UsageError(f"{first.paths[0]} and {piece.paths[0]} cannot be merged: their {field} differ: {one} and {other}")
        models = [str(about.machine.get("cpu_model")) for about in (first.about, piece.about)]
        if models[0] != models[1]:
            raise UsageError(f"{first.paths[0]} and {piece.paths[0]} cannot be merged: they are of {models[0]} and of {models[1]}")
    trials = sorted((trial for piece in pieces for trial in piece.trials), key=lambda trial: trial.started_at)
    return Validation(about=first.about, trials=tuple(trials), paths=tuple(path for piece in pieces for path in piece.paths))


def peer_samples(validation: Validation) -> list[PeerSample]:
    """Let the rules of other tools judge the same raw samples: those that took turns, and those of processes minutes apart.

    `one after the other` is how the tools themselves are used: base is a process of one run, head one of the next run, each with a block's
    samples.
    """
    found = []
    names = {one.candidate.id: one.id for one in validation.about.subjects}
    earlier: dict[str, list[float]] = {}
    for number, trial in enumerate(validation.trials):
        blocks = _blocks(validation, trial)
        for candidate, taken in blocks.items():
            if candidate.endswith(f"@{CONTROL}") or candidate not in names or not taken:
                continue
            case = names[candidate]
            slowed = case == trial.run.slowed
            base, head = _flat(taken[0].base_s), _flat(taken[0].head_s)
            found.append(PeerSample(run=number, case=case, manner=INTERLEAVED, is_slowed=slowed, calls=calls(base, head)))
            if case in earlier:
                found.append(PeerSample(run=number, case=case, manner=SEQUENTIAL, is_slowed=slowed, calls=calls(earlier[case], head)))
            earlier[case] = base
    return found


def _blocks(validation: Validation, trial: Trial) -> dict[str, list[BlockSamples]]:
    """Return the raw blocks of a run, none where they were not kept."""
    folders = [path / _GATES / trial.folder for path in validation.paths]
    return next((read_blocks(folder) for folder in folders if folder.is_dir()), {})


def _flat(repetitions: Sequence[Sequence[float]]) -> list[float]:
    return [sample for repetition in repetitions for sample in repetition]
