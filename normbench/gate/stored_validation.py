"""A validation on disk: `validation.json` (what was tried, where), `trials.jsonl` (each whole run as it ends) and the blocks of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

import msgspec

from ..cases.case import Case
from ..cases.conditions import Conditions
from ..catalogue import REQUIREMENTS
from ..errors import UsageError
from ..storage.journal import JournalKind
from .archive import read_blocks
from .injection import Size, subject_spec
from .outcome import ExitCode
from .peers import calls
from .policy import Policy
from .process import CONTROL, Candidate
from .standing import BlockSamples
from .validation import GateRun, PeerSample

__all__ = ["GATES", "JOURNALS", "About", "Subject", "Trial", "Validation", "merged", "peer_samples", "read_validation"]

GATES = "gates"
"""Name of the folder of the runs' blocks in that of a validation."""
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


def _refuse_difference(path: Path, wanted: About, found: About) -> Never:
    raise UsageError(f"{path} holds a validation already: give another folder")


JOURNALS: JournalKind[About, Trial] = JournalKind(
    what="validation",
    entries="runs",
    made_by="normbench gate validate",
    header_name="validation.json",
    lines_name="trials.jsonl",
    header=About,
    entry=Trial,
    refuse_difference=_refuse_difference,
)


def read_validation(path: Path) -> Validation:
    """Read a validation, finished or not. Raises UsageError where there is none, NormbenchError where it is damaged."""
    about, trials = JOURNALS.read(path)
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
    folders = [path / GATES / trial.folder for path in validation.paths]
    return next((read_blocks(folder) for folder in folders if folder.is_dir()), {})


def _flat(repetitions: Sequence[Sequence[float]]) -> list[float]:
    return [sample for repetition in repetitions for sample in repetition]
