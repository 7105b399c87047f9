"""What a measuring process of the gate has loaded and called before its first fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import UsageError
from normbench.gate.arms import Side
from normbench.gate.interpreter import REQUIRED
from normbench.gate.process import CONTROL, Candidate, Setup
from normbench.gate.trees import folder_tree
from normbench.measure.servers import server_environment
from normbench.measure.worker import Worker

from .repositories import write

KERNEL = """
    from pathlib import Path

    import normbench


    @normbench.provider("mine", norms=["rms_norm"])
    def mine(x, weight, bias, residual, eps):
        with Path({calls!r}).open("a") as file:
            file.write(x.device.type + " ")
        return x * weight
"""
CANDIDATE = Candidate(case=Case.make("rms_norm", "forward", (4, 8), "float32"), base_spec="./kernel.py", head_spec="./kernel.py")


@pytest.fixture
def start(tmp_path):
    """Return a function that sets a process up and returns the calls that were made meanwhile and what its arms lack."""
    for side in Side:
        write(tmp_path / side, {"kernel.py": KERNEL.format(calls=str(tmp_path / f"{side} calls"))})
        (tmp_path / f"{side} calls").touch()

    def run(device="cpu", specs=(("./kernel.py", "./kernel.py"),), prepared=(CANDIDATE,), sides=tuple(Side)):
        setup = Setup(
            base=folder_tree(tmp_path / "base"),
            head=folder_tree(tmp_path / "head"),
            specs=specs,
            conditions=Conditions(device=device, threads=1),
            prepared=prepared,
            sides=sides,
        )
        environment = server_environment("cpu")
        with Worker(
            setup="normbench.gate.process:set_up_arms", setup_argument=setup, environment=environment, log=tmp_path / "log"
        ) as worker:
            absences = dict(worker.run("normbench.gate.process:tell_absence", None, timeout_s=60))
        return {side: (tmp_path / f"{side} calls").read_text().split() for side in Side}, absences

    return run


def test_prepared_functions_of_both_arms_are_called_before_the_first_fork(start):
    assert start()[0] == {Side.BASE: ["cpu", "cpu"], Side.HEAD: ["cpu", "cpu"]}


def test_where_cuda_is_measured_nothing_is_called_because_what_touched_it_cannot_be_forked(start):
    assert start(device="cuda:0")[0] == {Side.BASE: [], Side.HEAD: []}


def test_a_process_of_one_side_loads_and_calls_that_side_alone(start):
    calls, absences = start(sides=(Side.HEAD,))
    assert calls == {Side.BASE: [], Side.HEAD: ["cpu", "cpu"]}
    assert absences == {"head ./kernel.py": None}


def test_a_side_that_lacks_a_provider_says_so_and_two_are_refused(start):
    _, absences = start(specs=(("./kernel.py", "./gone.py"),), prepared=())
    assert absences["base ./kernel.py"] is None
    assert absences["head ./gone.py"].endswith("has no file ./gone.py")
    with pytest.raises(UsageError, match="nothing to compare"):
        start(specs=(("./gone.py", "./gone.py"),), prepared=())


def test_names_of_arms_and_ids_of_candidates():
    assert CANDIDATE.arms == ("base ./kernel.py", "head ./kernel.py")
    assert CANDIDATE.id == "op/rms_norm/forward/4x8/float32@./kernel.py"
    two = Candidate(case=CANDIDATE.case, base_spec="aten", head_spec="eager")
    assert (two.id.partition("@")[2], two.arm(Side.HEAD)) == ("aten:eager", "head eager")
    assert [one.is_control for one in (two, Candidate(case=two.case, base_spec=CONTROL, head_spec=CONTROL))] == [False, True]


def test_what_another_interpreter_must_have_is_what_a_measuring_process_imports():
    code = f"""
import sys
import scipy.special, {", ".join(REQUIRED)}
before = set(sys.modules)
import normbench.gate.process, normbench.gate.likeness, normbench.gate.duet, normbench.gate.counted
import normbench.measure.checking, normbench.measure.block, normbench.measure.worker
tops = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(tops - sys.stdlib_module_names - {{"normbench"}} - {{name.partition(".")[0] for name in before}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
