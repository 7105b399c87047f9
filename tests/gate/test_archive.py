"""A gate run on disk, its blocks as they come."""

from math import exp

import pytest

from normbench.errors import UsageError
from normbench.gate.archive import Archive, read_blocks
from normbench.gate.outcome import conclude
from normbench.gate.policy import Policy
from normbench.gate.standing import BlockSamples


def block(candidate, log_ratio):
    return BlockSamples(candidate=candidate, started_at=1.0, inner=3, base_s=((1.0, 1.0),), head_s=((exp(log_ratio),) * 2,))


def test_blocks_are_on_disk_as_they_come_and_come_back_in_order(tmp_path):
    with Archive(tmp_path / "gates", {"command": ["normbench", "gate"]}) as archive:
        taken = [block("a", 0.01), block("b", 0.02), block("a", 0.03)]
        for one in taken:
            archive.append(one)
        assert read_blocks(archive.path) == {"a": [taken[0], taken[2]], "b": [taken[1]]}
        archive.conclude(conclude(Policy(), []))
    assert {file.name for file in archive.path.iterdir()} == {"gate.json", "blocks.jsonl", "outcome.json"}


def test_two_runs_within_a_second_have_folders_of_their_own(tmp_path):
    with Archive(tmp_path, {}) as first, Archive(tmp_path, {}) as second:
        assert first.path != second.path


def test_half_a_last_line_is_what_a_killed_run_leaves_and_is_left_out(tmp_path):
    with Archive(tmp_path, {}) as archive:
        archive.append(block("a", 0.0))
    file = archive.path / "blocks.jsonl"
    file.write_bytes(file.read_bytes() * 2 + b'{"candidate":')
    assert len(read_blocks(archive.path)["a"]) == 2


def test_a_broken_line_before_the_last_is_named(tmp_path):
    with Archive(tmp_path, {}) as archive:
        archive.append(block("a", 0.0))
    file = archive.path / "blocks.jsonl"
    file.write_bytes(b"{}\n" + file.read_bytes())
    with pytest.raises(UsageError, match=r"blocks\.jsonl, line 1"):
        read_blocks(archive.path)


def test_a_folder_that_is_no_gate_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no gate run"):
        read_blocks(tmp_path)
