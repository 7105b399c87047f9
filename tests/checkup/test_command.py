"""`normbench check` as a user meets it: what is right passes, each kind of fault is caught and named, and the exit code says so."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from normbench.cli.check import check
from normbench.errors import UsageError

WRONG = Path(__file__).with_name("wrong.py")

# 64 rows, so that sums in 16 bits stray; 96 columns are no power of two. Layouts and values are those that the faults are told by.
CHOICES = ["--grid", "64x96", "--norm", "layer_norm,rms_norm", "--pass", "forward_backward", "--dtype", "float32,bfloat16"]
CHOICES += ["--layout", "contiguous,sliced,dy_strided", "--values", "normal,large_mean,tiny", "--device", "cpu"]

# By provider: the status, and words that must be in the reason of one of its verdicts.
FAULTS = {
    "one_pass": ("wrong", ["large_mean"], "y is off by up to"),
    "sums_in_16_bits": ("wrong", ["bfloat16"], "dweight is off by up to"),
    "eps_outside": ("wrong", ["tiny"], "y is off by up to"),
    "ignores_strides": ("wrong", ["sliced"], "not finite where the exact ones are"),
    "drops_dy_strides": ("wrong", ["dy_strided"], "dx has"),
    "no_weight_gradient": ("wrong", [], "dweight is missing"),
    "not_a_number": ("wrong", [], "y has 6144 values that are not finite where the exact ones are"),
    "crashes_beside_a_large_mean": ("error", ["large_mean"], "the process was killed by signal 11, SIGSEGV"),
}


def strict(text):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def faulty(normbench, tmp_path_factory):
    providers = ",".join(f"{WRONG}:{name}" for name in (*FAULTS, "right"))
    process = normbench("check", "--provider", providers, *CHOICES, "--json", cwd=tmp_path_factory.mktemp("faulty"))
    assert process.returncode == 1, process.stderr
    found = strict(process.stdout)
    assert found["ok"] is False
    by_name = defaultdict(list)
    for verdict in found["verdicts"]:
        by_name[verdict["provider"].rpartition(":")[2]].append(verdict)
    return by_name


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_where_it_shows_and_said_in_words(faulty, name):
    status, where, reason = FAULTS[name]
    failed = [verdict for verdict in faulty[name] if verdict["status"] in ("wrong", "error")]
    assert {verdict["status"] for verdict in failed} == {status}
    named = [f"{verdict['case']} {verdict['values']} {verdict['layout']} {verdict['reason']}" for verdict in failed]
    assert any(reason in text and all(word in text for word in where) for text in named), named


# Who needs an adversary to be caught, and which.
@pytest.mark.parametrize(
    ("name", "adversary"),
    [("one_pass", "large_mean"), ("eps_outside", "tiny"), ("ignores_strides", "sliced"), ("drops_dy_strides", "dy_strided")],
)
def test_ordinary_tensors_do_not_tell_what_an_adversary_does(faulty, name, adversary):
    judged = [verdict for verdict in faulty[name] if verdict["status"] != "unsupported"]
    without = {verdict["status"] for verdict in judged if adversary not in (verdict["values"], verdict["layout"])}
    assert without == {"ok"}


def test_what_is_right_is_right_beside_them(faulty):
    assert {verdict["status"] for verdict in faulty["right"]} == {"ok", "unsupported"}


def test_every_provider_has_a_verdict_for_every_trial_whoever_crashes(faulty):
    asked = [(v["case"], v["values"], v["layout"]) for v in faulty["right"]]
    assert len(set(asked)) == len(asked) > 20
    for name in FAULTS:
        assert [(v["case"], v["values"], v["layout"]) for v in faulty[name]] == asked


@pytest.fixture(scope="module")
def right(normbench, tmp_path_factory):
    arguments = ["--provider", "eager", "--grid", "4x24,0x8", "--values", "normal,large_mean,overflow", "--layout", "contiguous,sliced"]
    return normbench("check", *arguments, "--device", "cpu", cwd=tmp_path_factory.mktemp("right"))


def test_what_is_right_exits_with_0_and_shows_ulps_and_relative_norm(right):
    assert right.returncode == 0, right.stdout
    assert right.stderr == ""
    table, _, adversaries = right.stdout.partition("Adversarial tensors")
    assert all(word in table for word in ("provider", "dtype", "dweight", "limit", "worst case"))
    for norm in ("layer_norm", "rms_norm", "rms_norm llama", "rms_norm gemma"):
        assert f"eager     {norm} " in table
    assert "values large_mean" in adversaries
    assert "layout sliced" in adversaries
    assert "0 wrong" in right.stdout.splitlines()[-1]


def test_past_float32_is_told_and_not_judged(right):
    assert "past float32, not judged: eager in" in right.stdout


def test_an_unsupported_case_is_listed_with_its_reason_and_is_no_failure(normbench, tmp_path):
    case = "op/rms_norm/forward/4x8/float32/bias,op/rms_norm/forward/4x8/float32"
    process = normbench("check", "--provider", "aten", "--case", case, "--values", "normal", "--device", "cpu", cwd=tmp_path)
    assert process.returncode == 0, process.stdout
    assert "unsupported aten, 6 of its trials: F.rms_norm has no bias" in process.stdout


def test_a_failure_is_a_line(normbench, tmp_path):
    choices = ["--provider", f"{WRONG}:no_weight_gradient", "--case", "op/rms_norm/forward_backward/4x8/float32", "--device", "cpu"]
    process = normbench("check", *choices, "--values", "normal", "--layout", "contiguous", cwd=tmp_path)
    assert process.returncode == 1
    assert f"wrong {WRONG}:no_weight_gradient op/rms_norm/forward_backward/4x8/float32: dweight is missing" in process.stdout.splitlines()


def test_bad_input_gets_one_clear_line_and_exit_2(normbench, tmp_path):
    process = normbench("check", "--values", "odd", cwd=tmp_path)
    assert process.returncode == 2
    (line,) = process.stderr.strip().splitlines()
    assert line.startswith("normbench: values 'odd' is unknown; known are normal, large_mean, ")


# What is refused before a process is started, and what only a process can tell.
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"provider": "atem"}, ["'atem'", "aten"]),
        ({"provider": "./none.py"}, ["none.py"]),
        ({"grid": "old"}, ["'old'", "odd", "edges"]),
        ({"case": "op/rms_norm"}, ["op/rms_norm"]),
        ({"norm": "batch_norm"}, ["'batch_norm'", "rms_norm"]),
        ({"pass_": "sideways"}, ["'sideways'", "forward"]),
        ({"dtype": "int8"}, ["'int8'", "float64"]),
        ({"values": ","}, ["values is empty", "large_mean"]),
        ({"layout": "diagonal"}, ["'diagonal'", "sliced"]),
        ({"grid": "8", "layout": "heads"}, ["heads", "none of the cases"]),
        ({"device": "cuda:99", "provider": "eager"}, ["cuda:99"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_each_word_that_does_not_fit_is_named_beside_those_that_do(options, words):
    with pytest.raises(UsageError) as refusal:
        check(**options)
    assert all(word in str(refusal.value) for word in words)
