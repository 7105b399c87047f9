"""`normbench profile` as a user meets it, in a process of its own, on a network of their own."""

import json
from pathlib import Path

import pytest

from normbench.cli.profile import profile
from normbench.errors import UsageError

NETWORK = """
import torch
from torch import nn


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 8)), {"input": torch.randn(32, 64)}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "own.py").write_text(NETWORK)
    return folder


def test_the_table_says_what_norms_take(normbench, folder):
    process = normbench("profile", "own.py:make", "--pass", "forward", "--steps", "3", "--threads", "1", cwd=folder)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    title, took, *_ = process.stdout.splitlines()
    assert title == "own.py:make, forward, 32x64, float32, norms as they are; cpu, 1 thread"
    assert took.startswith("a forward takes ")
    assert "aten::native_layer_norm" in process.stdout


def test_machines_get_json_for_each_pass_with_its_trace_and_picture(normbench, folder):
    arguments = [
        "--provider",
        "eager",
        "--norm",
        "rms_norm",
        "--steps",
        "3",
        "--threads",
        "1",
        "--trace",
        "t.json",
        "--plot",
        "p.png",
        "--json",
    ]
    process = normbench("profile", "own.py:make", *arguments, cwd=folder)
    assert process.returncode == 0, process.stderr
    forward, training = json.loads(process.stdout)["profiles"]
    assert (forward["pass"], training["pass"]) == ("forward", "forward_backward")
    for found in (forward, training):
        assert found["norms_by"] == "rms_norm by eager"
        assert found["norm"]["calls"] == 1
        assert found["norm"]["norm_s"] == pytest.approx(found["norm"]["share"] * found["total_s"], rel=1e-6)
        assert sum(part["share"] for part in found["by_kind"]) == pytest.approx(1)
        events = json.loads((folder / found["files"]["trace"]).read_text())["traceEvents"]
        assert any(event["name"] == "module: 1" for event in events)
        assert (folder / found["files"]["plot"]).read_bytes().startswith(b"\x89PNG")
    assert training["files"] == {"trace": "t-forward_backward.json", "plot": "p-forward_backward.png"}


def test_bad_input_gets_one_clear_line_and_exit_2(normbench, folder):
    process = normbench("profile", "transfomer", cwd=folder)
    assert process.returncode == 2, process.stdout + process.stderr
    (line,) = process.stderr.strip().splitlines()
    assert line.startswith("normbench: network 'transfomer' is unknown; known are ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"case": "none.py:make"}, "none.py"),
        ({"case": "own.py:other"}, "'other'"),
        ({"provider": "atem"}, "'atem' is unknown"),
        ({"norm": "batch_norm"}, "'batch_norm' is unknown"),
        ({"pass_": "forward,backward"}, "pass 'backward'"),
        ({"dtype": "float32"}, "dtype 'float32' beside"),
        ({"steps": 0}, "steps 0"),
        ({"threads": 0}, "threads 0"),
        ({"device": "cuda:99"}, "cuda:99"),
        ({"trace": Path("none/t.json")}, r"'none' of 't\.json'"),
        ({"plot": Path(".")}, "'.' is a folder"),
        ({"case": "model/transformer-tiny/rms_norm"}, "model/network-preset"),
    ],
)
def test_what_can_never_work_is_told_before_anything_runs(folder, monkeypatch, options, words):
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match=words):
        profile(**{"case": "own.py:make"} | options)
