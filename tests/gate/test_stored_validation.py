"""Validations on disk: read back, joined from pieces, and judged by other tools' rules too."""

from __future__ import annotations

from pathlib import Path

import pytest

from normbench.errors import NormbenchError, UsageError
from normbench.gate.archive import Archive
from normbench.gate.peers import Call, Rule
from normbench.gate.policy import Policy
from normbench.gate.standing import BlockSamples
from normbench.gate.stored_validation import INTERLEAVED, SEQUENTIAL, Validation, merged, peer_samples, read_validation

from .made import CASES, about, trial, write


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


def test_run_that_a_crash_cut_short_is_left_out_and_a_damaged_validation_is_named(tmp_path):
    path = write(tmp_path / "one", about(), trial("a"), trial("b"))
    lines = path / "trials.jsonl"
    lines.write_bytes(lines.read_bytes()[:-5])
    assert [one.folder for one in read_validation(path).trials] == ["a"]
    lines.write_bytes(b"{}\n")
    with pytest.raises(NormbenchError, match=r"one: cannot be read as a validation of this version"):
        read_validation(path)


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
