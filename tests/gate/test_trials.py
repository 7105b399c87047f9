"""Whole runs of the gate on disk: planned in a fair order, read back, merged, and judged by other tools' rules too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from normbench.case import Case
from normbench.conditions import Conditions
from normbench.errors import UsageError
from normbench.gate import trials as running
from normbench.gate.archive import Archive
from normbench.gate.decide import Verdict
from normbench.gate.outcome import ExitCode, Outcome, RunEnd
from normbench.gate.peers import Call, Rule
from normbench.gate.policy import Policy
from normbench.gate.standing import BlockSamples
from normbench.gate.trials import (
    INTERLEAVED,
    SEQUENTIAL,
    About,
    Subject,
    Trial,
    Trials,
    Validation,
    merged,
    peer_samples,
    read_validation,
    validate,
)
from normbench.gate.validation import GateRun

CASES = tuple(Subject(provider="aten", case=Case.make("rms_norm", "forward", (rows, 64), "float32")) for rows in (1, 2))
CONDITIONS = Conditions(device="cpu", threads=1)


def trials(**changes):
    fields = {
        "subjects": CASES,
        "slowdowns": (0.0, 0.05, 0.03),
        "runs": 4,
        "policy": Policy(),
        "conditions": CONDITIONS,
        "budget_s": 60.0,
        "seed": 7,
    }
    return Trials(**{**fields, **changes})


def test_every_round_has_each_size_once_and_the_slowed_case_moves_on():
    order = list(trials().order())
    rounds = [order[start : start + 3] for start in range(0, 12, 3)]
    assert all({size for size, _ in one} == {0.0, 0.03, 0.05} for one in rounds)
    assert all((slowed is None) == (size == 0) for size, slowed in order)
    assert Counter(slowed.id for _, slowed in order if slowed) == {CASES[0].id: 4, CASES[1].id: 4}
    assert len({tuple(size for size, _ in one) for one in rounds}) > 1, "sizes come in random order"


def test_seed_decides_which_case_is_slowed_first_so_that_pieces_of_one_run_cover_all():
    firsts = {next(slowed.id for _, slowed in trials(runs=1, seed=seed).order() if slowed) for seed in (0, 1)}
    assert firsts == {one.id for one in CASES}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": 0}, "0 runs are none"),
        ({"slowdowns": ()}, "are no slow-downs"),
        ({"slowdowns": (1.5,)}, "are no slow-downs"),
        ({"subjects": (Subject(provider="aten", case=Case.make("rms_norm", "backward", (1, 64), "float32")),)}, "`backward` does not time"),
    ],
)
def test_what_cannot_be_tried_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        trials(**changes)


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


def test_validation_is_read_back_and_pieces_are_joined_in_the_order_they_were_run(tmp_path):
    late = write(tmp_path / "late", about(), trial("b", started_at="2026-01-02T00:00:00+00:00"))
    early = write(tmp_path / "early", about(), trial("a"))
    joined = merged([read_validation(late), read_validation(early)])
    assert [one.folder for one in joined.trials] == ["a", "b"]
    assert joined.paths == (late, early)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"policy": Policy(margin=0.03)}, "policy"),
        ({"budget_s": 30.0}, "budget_s"),
        ({"subjects": CASES[:1]}, "subjects"),
        ({"versions": {"torch": "2.12.0"}}, "versions"),
        ({"machine": {"cpu_model": "Another CPU", "cores": 2}}, "Another CPU"),
    ],
)
def test_pieces_that_differ_in_what_matters_are_not_merged(tmp_path, changes, field):
    one, other = write(tmp_path / "one", about(), trial("a")), write(tmp_path / "other", about(**changes), trial("b"))
    with pytest.raises(UsageError, match=field):
        merged([read_validation(one), read_validation(other)])


def test_a_package_that_no_case_runs_by_may_have_come_in_between(tmp_path):
    one, other = (
        write(tmp_path / name, about(versions={"torch": "2.13.0", "transformers": version}), trial(name))
        for name, version in (("one", None), ("other", "5.24.0"))
    )
    assert len(merged([read_validation(one), read_validation(other)]).trials) == 2


def test_folder_without_a_validation_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no validation"):
        read_validation(tmp_path)


def keep_blocks(path: Path, *, base_s: float, head_s: float) -> str:
    with Archive(path / "gates", {}) as archive:
        for one in CASES:
            samples = {"base_s": ((base_s,) * 30,), "head_s": ((head_s,) * 30,)}
            archive.append(BlockSamples(candidate=one.candidate.id, started_at=0.0, inner=1, **samples))
    return archive.path.name


def test_other_tools_judge_samples_that_took_turns_and_samples_of_processes_one_after_the_other(tmp_path):
    """The machine was slow in the second run: whoever compares runs calls that a change, whoever takes turns does not."""
    path = write(tmp_path / "one", about())
    folders = [keep_blocks(path, base_s=1e-3, head_s=1e-3), keep_blocks(path, base_s=2e-3, head_s=2e-3)]
    found = peer_samples(Validation(about=about(), trials=tuple(map(trial, folders)), paths=(path,)))
    rule = Rule.PYTEST_BENCHMARK_MEDIAN
    assert {(one.run, one.calls[rule]) for one in found if one.manner == INTERLEAVED} == {(0, Call.GREEN), (1, Call.GREEN)}
    assert {(one.run, one.calls[rule]) for one in found if one.manner == SEQUENTIAL} == {(1, Call.RED)}


def test_run_that_ctrl_c_cut_short_is_no_trial_and_ends_the_validation(tmp_path, monkeypatch):
    cut = Outcome(sentence="", exit_code=ExitCode.INVALID, end=RunEnd.INTERRUPTED, policy=Policy(), cases=(), controls=())
    monkeypatch.setattr(running, "_run", lambda *args, **options: (trial("a"), cut))
    with pytest.raises(KeyboardInterrupt):
        validate(
            trials(slowdowns=(0.0,)),
            root=tmp_path,
            command=(),
            machine={},
            versions={},
            observer=lambda *told: pytest.fail(f"told of {told}"),
            watched=lambda question: None,
        )
    (kept,) = tmp_path.iterdir()
    assert read_validation(kept).trials == ()
