"""`normbench list` from the outside."""

from __future__ import annotations

import json

import pytest
import synthetic
import throughput_runs
from typer.testing import CliRunner

from normbench.cli import app
from normbench.errors import UsageError
from normbench.records.record import Role
from normbench.storage.store import RunWriter


def listed(*arguments):
    return CliRunner().invoke(app, ["list", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "cases"),
    [
        (("--grid", "4x8", "--pass", "forward", "--norm", "rms_norm"), ["op/rms_norm/forward/4x8/float32"]),
        (
            ("--tier", "model", "--network", "cnn", "--pass", "forward"),
            ["model/cnn-tiny/layer_norm/forward/2x3x32x32/float32", "model/cnn-tiny/rms_norm/forward/2x3x32x32/float32"],
        ),
        (
            ("--tier", "throughput", "--network", "gpt2", "--mode", "train", "--norm", "rms_norm", "--accumulation", 4, "--tokens", 32),
            ["throughput/gpt2-tiny/rms_norm/train/2x32/float32/accumulate-4"],
        ),
        (
            ("--tier", "throughput", "--network", "gpt2", "--mode", "decode", "--norm", "rms_norm", "--batch", "1,4"),
            ["throughput/gpt2-tiny/rms_norm/decode/1x64/float32", "throughput/gpt2-tiny/rms_norm/decode/4x64/float32"],
        ),
    ],
)
def test_cases_are_those_that_run_would_measure_with_the_same_words(words, cases):
    assert [row["case"] for row in json.loads(listed("cases", *words, "--json").stdout)] == cases


def test_cases_of_a_tier_have_no_words_of_another_and_are_some():
    with pytest.raises(UsageError, match="network 'gpt2' means nothing in the op tier"):
        listed("cases", "--network", "gpt2")
    with pytest.raises(UsageError, match="no case is left"):
        listed("cases", "--norm", "")


def test_records_of_a_run_are_counted_as_they_were_planned(tmp_path):
    records = throughput_runs.group("decode")
    planned = sum(record.role is Role.PROVIDER for record in records)
    assert planned < len(records)
    with RunWriter.create("made", command=[], seed=0, planned=planned, settings={}, machine={}, versions={}, root=tmp_path) as writer:
        for record in records:
            writer.append(record)
    (row,) = json.loads(listed("runs", "--root", tmp_path, "--json").stdout)
    assert (row["records"], row["planned"]) == (planned, planned) == (4, 4)
    assert synthetic.CPU.id in records[0].key


def test_a_folder_of_runs_that_was_named_must_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--root 'nosuch' does not exist"):
        listed("runs", "--root", "nosuch")
    assert listed("runs", "--json").stdout.strip() == "[]"
