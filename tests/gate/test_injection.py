"""What a validation gives the gate: two folders that compute the same, and a slow-down of known size in one of them."""

from __future__ import annotations

import pytest
import torch

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import UsageError
from normbench.gate.arms import SideBySide
from normbench.gate.injection import Size, extra_turns, measure_sizes, subject_spec, write_subjects
from normbench.gate.trees import folder_tree
from normbench.oracle.problem import make_problem
from normbench.workloads.op import make_call

CASE = Case.make("rms_norm", "forward", (8, 64), "float32")
OTHER = Case.make("rms_norm", "forward", (9, 64), "float32")
LONG_TURNS = 2_000_000


def test_both_folders_compute_what_the_provider_computes_and_only_the_slowed_case_takes_longer(tmp_path):
    base, head = write_subjects(tmp_path, ["aten"], {("aten", CASE.id): LONG_TURNS})
    with SideBySide(base=folder_tree(base), head=folder_tree(head)) as side_by_side:
        pair = side_by_side.pair(subject_spec("aten"))
        problem = make_problem(CASE, device="cpu", seed=0)
        expected = torch.nn.functional.rms_norm(problem.x, (64,), problem.weight, CASE.eps)
        for arm in (pair.base, pair.head):
            assert arm.unsupported(CASE, "cpu") is None
            assert torch.equal(make_call(problem, arm.prepare(CASE))(), expected)
        turns = {(arm.side.value, case.shape): inner_turns(arm.prepare(case)) for arm in (pair.base, pair.head) for case in (CASE, OTHER)}
    assert turns == {("base", (8, 64)): 0, ("base", (9, 64)): 0, ("head", (8, 64)): LONG_TURNS, ("head", (9, 64)): 0}


def inner_turns(function):
    return dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__), strict=True))["turns"]


def test_size_of_a_slowdown_is_turns_of_the_loop_over_one_call():
    size = Size(call_s=10e-6, turn_s=10e-9)
    assert extra_turns(size, 0.05) == 50
    assert size.slowdown(50) == pytest.approx(0.05)


def test_slowdown_finer_than_the_loop_is_refused():
    with pytest.raises(UsageError, match="less than the loop can add"):
        extra_turns(Size(call_s=1e-6, turn_s=50e-9), 0.01)


def test_sizes_are_measured_apart_in_processes_of_their_own(tmp_path):
    log = tmp_path / "worker.log"
    sizes = measure_sizes([("aten", CASE)], Conditions(device="cpu", threads=1), seed=0, log=log)
    (key,) = sizes
    assert key == ("aten", CASE.id)
    # No call from Python is shorter than 50 ns, and no turn of an empty loop as long as a microsecond.
    assert sizes[key].call_s > 50e-9
    assert 0 < sizes[key].turn_s < 1e-6
