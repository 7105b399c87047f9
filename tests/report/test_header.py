"""What ran on what, from machine records full and bare."""

from __future__ import annotations

import pytest
import synthetic

from normbench.cases.case import Case
from normbench.report.header import facts
from normbench.results.derived import derive_results

CASE = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")
CARD = {"type": "cuda", "name": "Example GPU", "memory_bytes": 80 * 2**30, "l2_bytes": 50 * 2**20}


def lines(**changes):
    run = synthetic.run(synthetic.group(CASE), **changes)
    return dict(facts(run, derive_results(run.records)))


def test_facts_of_a_cpu_run():
    found = lines()
    assert found["Processor"] == "Example CPU 9000, 2 of 8 CPUs usable, widest vectors avx512f, L2 1.00 MiB, L3 32.0 MiB"
    assert found["Memory"] == "16 GiB"
    assert found["System"] == "Example Linux 1, Linux 6.8"
    assert "GPU" not in found
    assert "5 processes x 2 repetitions (fresh tensors each) x 9 turns of 4 calls" in found["Method"]


def test_gpu_is_the_one_measured_on():
    other = {"name": "Other GPU", "power_limit_w": 700.0}
    assert (
        lines(machine={"device": CARD, "gpus": [other], "nvidia_driver": "570.1"})["GPU"]
        == "Example GPU, 80.0 GiB, L2 50.0 MiB; driver 570.1"
    )
    assert lines(machine={"device": {"type": "cpu"}, "gpus": [other]})["GPU"] == "Other GPU, power limit 700 W"


def test_limits_are_shown():
    found = lines(machine=synthetic.MACHINE | {"cpu_quota": 1.5, "memory_limit_bytes": 2**30})
    assert "quota 1.5 CPUs" in found["Processor"]
    assert "limited to 1.00 GiB" in found["Memory"]


def test_bare_machine_leaves_lines_out():
    assert set(lines(machine={}, versions={})) == {"Conditions", "Method", "Taken"}


@pytest.mark.parametrize(("commit", "shown"), [("a" * 40, "a" * 12), ("b" * 40 + "-dirty", "b" * 12 + "-dirty"), ("unknown", "unknown")])
def test_commit_is_short_but_says_dirty(commit, shown):
    assert lines(git_commit=commit)["Taken"].endswith(f"commit {shown}")
