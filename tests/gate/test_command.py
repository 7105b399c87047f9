"""`normbench gate` on real repositories, by the real engine. Verdicts on speed are not asked for: they are the machine's."""

import json

import pytest

from .repositories import commit, git, write

KERNEL = """
    import torch
    import normbench


    @normbench.provider("mine", norms=["rms_norm"])
    def mine(x, weight, bias, residual, eps):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight{change}
"""
CASE = "op/rms_norm/forward/4x64/float32"
ONE_CASE = ("--cases", CASE, "--provider", "./kernel.py")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    commit(folder, {"kernel.py": KERNEL.format(change="")})
    return folder


def outcome_of(done):
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_both_versions_are_measured_and_nothing_is_left_behind(normbench, repository):
    write(repository, {"kernel.py": KERNEL.format(change=" + 0.0")})
    done = normbench("gate", "--base", "main", *ONE_CASE, "--budget", "60s", "--json", "--markdown", "comment.md", cwd=repository)
    outcome = outcome_of(done)
    (case,) = outcome["cases"]
    assert case["case"] == f"{CASE}@./kernel.py"
    # Fewer blocks than the first look's would be a pass before anything was seen.
    assert case["decision"]["blocks"] >= 8, outcome
    assert done.returncode == outcome["exit_code"] in (0, 1, 3)
    (folder,) = (repository / ".normbench/gates").iterdir()
    lines = [json.loads(line) for line in (folder / "blocks.jsonl").read_text().splitlines()]
    assert {line["candidate"].partition("@")[2] for line in lines} == {"./kernel.py", "control"}
    assert all(sample > 0 for line in lines for repetition in line["base_s"] + line["head_s"] for sample in repetition)
    assert (repository / "comment.md").read_text().startswith("**")
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert "uncommitted changes" in json.loads((folder / "gate.json").read_text())["head"]


def test_a_head_that_is_wrong_exits_with_1_and_says_how_wrong(normbench, repository):
    write(repository, {"kernel.py": KERNEL.format(change=" + 0.1")})
    done = normbench("gate", "--base", "main", *ONE_CASE, "--json", cwd=repository)
    assert done.returncode == 1
    decision = outcome_of(done)["cases"][0]["decision"]
    assert decision["verdict"] == "wrong"
    assert "y is off by up to 0.1" in decision["reason"]


def test_a_provider_that_head_lacks_exits_with_4(normbench, repository):
    (repository / "kernel.py").unlink()
    done = normbench("gate", "--base", "main", *ONE_CASE, "--json", cwd=repository)
    assert done.returncode == 4
    assert outcome_of(done)["cases"][0]["decision"]["verdict"] == "missing"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no base: give --base REF, --base-dir FOLDER"),
        (["--base", "no-such-ref"], "git ref 'no-such-ref' is unknown"),
        (["--base=--upload-pack=x"], "is not a git ref"),
        (["--base", "main", "--base-dir", "."], "--base and --base-dir both name a base"),
        (["--base", "main", "--margin", "much"], "--margin 'much' is not a share"),
        (["--base", "main", "--budget", "0"], "--budget '0' is not a time"),
        (["--base", "main", "--cases", "no-such-grid"], "grid 'no-such-grid' is unknown"),
        (["--base", "main", "--threads", "0"], "threads"),
        (["--base", "main", "--markdown", "."], "--markdown '.' is a folder: give the name of a file"),
        (["--base-provider", "aten"], "go together"),
        (["--base-provider", "aten", "--head-provider", "aten"], "nothing to compare"),
        (["--base", "main", "--provider", "no_such"], "no_such"),
        (["--base-python", "no-such-python"], "--base-python 'no-such-python' is not a file"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(normbench, repository, arguments, words):
    done = normbench("gate", *arguments, cwd=repository)
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if line.startswith("normbench: ")]
    assert len(lines) == 1
    assert words in lines[0]
