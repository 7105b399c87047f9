"""A validation of two small cases, made up, and written to a folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.gate.decide import Verdict
from normbench.gate.outcome import ExitCode
from normbench.gate.policy import Policy
from normbench.gate.stored_validation import About, Subject, Trial
from normbench.gate.validation import GateRun

CASES = tuple(Subject(provider="aten", case=Case.make("rms_norm", "forward", (rows, 64), "float32")) for rows in (1, 2))
CONDITIONS = Conditions(device="cpu", threads=1)


def about(**changes):
    fields = {
        "command": ("normbench",),
        "machine": {"cpu_model": "A CPU", "cores": 2},
        "versions": {"torch": "2.13.0"},
        "policy": Policy(),
        "conditions": CONDITIONS,
        "budget_s": 60.0,
        "subjects": CASES,
        "sizes": {},
    }
    return About(**{**fields, **changes})


def trial(folder, *, slowed=None, started_at="2026-01-01T00:00:00+00:00"):
    size = 0.05 if slowed else 0.0
    run = GateRun(
        policy=Policy(),
        cases=4,
        logs={one.id: (0.001,) * 8 for one in CASES},
        verdicts={one.id: Verdict.PASS for one in CASES},
        asked=size,
        slowdown=size,
        slowed=slowed,
    )
    return Trial(run=run, exit_code=ExitCode.PASS, folder=folder, started_at=started_at)


def write(path: Path, told: About, *lines: Trial) -> Path:
    path.mkdir(parents=True)
    (path / "validation.json").write_bytes(msgspec.json.encode(told))
    (path / "trials.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path
