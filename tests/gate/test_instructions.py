"""Instructions of a call beside the ratio: in real processes, by a meter that plays what a test wrote."""

from __future__ import annotations

import sys

import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import NormbenchError
from normbench.gate import instructions
from normbench.gate.decide import Decision, Verdict
from normbench.gate.instructions import FEW, MANY, with_instructions
from normbench.gate.interpreter import running_interpreter
from normbench.gate.outcome import CaseResult, Instructions, conclude
from normbench.gate.policy import Policy
from normbench.gate.process import Candidate, Setup
from normbench.gate.trees import folder_tree

from .repositories import write

KERNEL = """
    import os
    import normbench


    @normbench.provider("mine", norms=["rms_norm"])
    def mine(x, weight, bias, residual, eps):
        assert os.environ.get("METERED") == "yes"
        if x.shape[0] == 5:
            os.abort()
        return x * weight
"""


class Meter:
    """Count 1000 for what surrounds calls, and 7 for each call of the first arm, 21 of the second."""

    name = "a played meter"
    command = ("/usr/bin/env", "METERED=yes")

    def __init__(self):
        self.pids = []

    def start(self, pid):
        self.pids.append(pid)

    def stop(self, pid):
        number = len(self.pids) - 1
        return 1000 + (7 if number < 2 else 21) * (MANY if number % 2 else FEW)


def candidate(rows):
    return Candidate(case=Case.make("rms_norm", "forward", (rows, 8), "float32"), base_spec="./kernel.py", head_spec="./kernel.py")


def outcome_of(*candidates, verdict=Verdict.PASS):
    return conclude(Policy(), [CaseResult(case=one.id, decision=Decision(verdict=verdict, reason="why")) for one in candidates])


@pytest.fixture
def count(tmp_path, monkeypatch):
    """Return a function that counts candidates, with the outcome and what was heard of it."""
    write(tmp_path, {"kernel.py": KERNEL})
    tree = folder_tree(tmp_path)
    meter = Meter()
    monkeypatch.setattr(instructions, "find_meter", lambda folder: (meter, ""))

    def run(*candidates, device="cpu", base_python=None, verdict=Verdict.PASS):
        heard = []
        setup = Setup(base=tree, head=tree, specs=(("./kernel.py",) * 2,), conditions=Conditions(device=device, threads=1), seed=0)
        outcome = outcome_of(*candidates, verdict=verdict)
        counted = with_instructions(outcome, candidates, setup, base_python=base_python, log=tmp_path / "log", observe=heard.append)
        return counted, heard, meter

    return run


def test_a_call_is_the_difference_of_two_counts_and_an_arm_that_dies_has_none_and_a_reason(count):
    fine, fatal = candidate(4), candidate(5)
    outcome, heard, meter = count(fine, fatal)
    assert [one.instructions for one in outcome.cases] == [Instructions(base=7, head=21), None]
    assert heard == [fine.id, fatal.id]
    assert len(set(meter.pids)) == 2, "each arm in a process of its own"
    told, reason = outcome.notes
    assert told.startswith("instructions a call were counted by a played meter, on PyTorch's ")
    assert told.endswith(" path; they decide nothing")
    assert "were not counted: the process was killed by signal 6" in reason
    assert outcome.exit_code == outcome_of(fine, fatal).exit_code


def test_each_interpreter_is_counted_by_itself(count):
    outcome, _, _ = count(candidate(4), base_python=running_interpreter())
    assert outcome.cases[0].instructions == Instructions(base=7, head=21), outcome.notes
    assert running_interpreter().executable == sys.executable


def test_where_times_were_too_noisy_instructions_are_counted_all_the_same(count):
    outcome, _, _ = count(candidate(4), verdict=Verdict.NOT_GATEABLE)
    assert outcome.cases[0].instructions == Instructions(base=7, head=21)


def test_what_could_not_be_measured_is_not_counted(count):
    outcome, heard, _ = count(candidate(4), verdict=Verdict.WRONG)
    assert (outcome.cases[0].instructions, heard) == (None, [])


def test_on_a_gpu_nothing_is_counted_and_the_note_says_why(count):
    outcome, heard, _ = count(candidate(4), device="cuda")
    assert heard == []
    assert outcome.notes == ("instructions were not counted: those of a GPU's host tell nothing of its kernels",)


def test_where_nobody_can_count_there_is_one_note(count, monkeypatch):
    monkeypatch.setattr(instructions, "find_meter", lambda folder: (None, "no tool"))
    assert count(candidate(4))[0].notes == ("instructions were not counted: no tool",)


def test_a_meter_that_cannot_start_what_it_counts_costs_a_note_and_no_verdict(count, monkeypatch):
    monkeypatch.setattr(Meter, "command", ("/usr/bin/false",))
    outcome, _, _ = count(candidate(4))
    assert outcome.cases == outcome_of(candidate(4)).cases
    (note,) = outcome.notes
    assert note.startswith("instructions were not counted by a played meter: the measuring process ended unexpectedly")


def test_a_meter_that_fails_costs_one_case_its_count(count, monkeypatch):
    def fail(self, pid):
        raise NormbenchError("lost it")

    monkeypatch.setattr(Meter, "stop", fail)
    outcome, _, _ = count(candidate(4))
    assert outcome.notes == (f"the instructions of {candidate(4).id} were not counted: lost it",)
