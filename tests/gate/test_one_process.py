"""One process for both arms: what is asked of it, and what becomes of its answers. The process is played."""

from __future__ import annotations

import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import NormbenchError
from normbench.gate import one_process
from normbench.gate.likeness import Account
from normbench.gate.one_process import OneProcess
from normbench.gate.outcome import Sameness
from normbench.gate.process import Candidate, Setup
from normbench.gate.sources import Sources
from normbench.gate.trees import folder_tree
from normbench.measure.block import BlockResult
from normbench.measure.checking import Begun, CheckResult
from normbench.measure.plan import Schedule
from normbench.measure.worker import TaskDied
from normbench.records.measurement import Block
from normbench.records.record import Status

ONE = Candidate(case=Case.make("rms_norm", "forward", (4, 8), "float32"), base_spec="aten", head_spec="aten")
BASE, HEAD = ONE.arms


class Player:
    made = []
    answers = []

    def __init__(self, *, setup, setup_argument, environment, log):
        self.setup, self.is_closed, self.tasks = setup_argument, False, []
        Player.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.is_closed = True

    def run(self, task, argument, *, timeout_s):
        assert not self.is_closed
        self.tasks.append(argument)
        for answer in Player.answers:
            if isinstance(answer, Exception):
                raise answer
            yield answer


@pytest.fixture
def arena(monkeypatch, tmp_path):
    monkeypatch.setattr(one_process, "Worker", Player)
    Player.made, Player.answers = [], []
    tree = folder_tree(tmp_path)
    setup = Setup(base=tree, head=tree, specs=(("aten", "aten"),), conditions=Conditions(device="cpu", threads=1), seed=3)
    arena = OneProcess(setup, tmp_path / "log")
    yield arena
    arena.close()
    assert all(one.is_closed for one in Player.made)


def ok(arm, status=Status.OK):
    return CheckResult(provider=arm, status=status)


def test_both_arms_are_checked_in_one_process_that_has_nothing_prepared(arena):
    Player.answers = [Begun(BASE), Begun(HEAD), Begun(None), ok(HEAD, Status.WRONG), ok(BASE)]
    assert arena.check(ONE) == (ok(BASE), ok(HEAD, Status.WRONG))
    assert not arena.is_ready
    (worker,) = Player.made
    assert worker.setup.prepared == ()
    assert worker.tasks[0].providers == (BASE, HEAD)


def test_an_arm_that_takes_the_process_down_is_told_from_one_that_was_not_reached(arena):
    Player.answers = [Begun(BASE), TaskDied("killed by signal 9", 9)]
    base, head = arena.check(ONE)
    assert (base.status, base.reason) == (Status.ERROR, "killed by signal 9")
    assert (head.status, head.reason) == (Status.ERROR, "not reached: killed by signal 9")


def test_a_process_that_dies_while_both_arms_are_compared_is_laid_on_neither_alone(arena):
    Player.answers = [Begun(BASE), Begun(HEAD), Begun(None), TaskDied("killed by signal 9", 9)]
    for result in arena.check(ONE):
        assert (result.status, result.reason) == (Status.ERROR, "killed by signal 9")


def test_preparing_replaces_the_process_and_a_round_keeps_it(arena):
    Player.answers = [ok(BASE), ok(HEAD)]
    arena.check(ONE)
    arena.prepare([ONE])
    checking, measuring = Player.made
    assert (checking.is_closed, measuring.is_closed, measuring.setup.prepared) == (True, False, (ONE,))
    arena.renew([ONE])
    assert len(Player.made) == 2
    assert arena.is_ready
    measuring.is_closed = True
    assert not arena.is_ready


def test_a_block_has_the_samples_of_both_arms(arena):
    arena.prepare([ONE])
    block = {arm: Block(started_at=5.0, inner=2, samples_s=((value,),), others_cpu_share=0.1) for arm, value in ((BASE, 1.0), (HEAD, 2.0))}
    Player.answers = [BlockResult(timer="played", blocks=block)]
    samples = arena.block(ONE, Schedule(repetitions=1, turns=1, inner=dict.fromkeys(ONE.arms, 2)), seed=9, peak_bytes=7)
    assert (samples.candidate, samples.base_s, samples.head_s, samples.inner) == (ONE.id, ((1.0,),), ((2.0,),), 2)
    (task,) = Player.made[-1].tasks
    assert (task.seed, task.peak_bytes, task.providers) == (9, 7, ONE.arms)


def account(digest):
    return Account(sources=Sources(provider="aten", loaded={"a.py": digest}, files={"a.py": digest}))


def test_the_code_of_both_arms_is_compared(arena):
    arena.prepare([ONE])
    Player.answers = [(BASE, account("1")), (HEAD, account("1"))]
    assert arena.code(ONE).same is Sameness.FILES
    Player.answers = [(BASE, account("1")), (HEAD, account("2"))]
    assert arena.code(ONE).same is None


def test_code_that_cannot_be_compared_ends_nothing(arena):
    arena.prepare([ONE])
    Player.answers = [NormbenchError("no such file")]
    assert arena.code(ONE).text == "the code of the arms was not compared: no such file"
