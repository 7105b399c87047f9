"""A gate run from checks to outcome, with a measuring process that plays what a test wrote; nothing is timed."""

from collections import Counter
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random

import pytest

from normbench.case import Case, Conditions
from normbench.errors import NormbenchError, UsageError
from normbench.gate import conduct as conducting
from normbench.gate.conduct import Observer, Question, conduct
from normbench.gate.decide import Verdict
from normbench.gate.outcome import ExitCode, RunEnd
from normbench.gate.policy import Policy
from normbench.gate.process import CONTROL, Candidate
from normbench.gate.trees import Tree
from normbench.measure.block import BlockResult, BlockTask
from normbench.measure.checking import CheckResult, CheckTask
from normbench.measure.worker import TaskDied, TaskTimeout
from normbench.record import Block, Status

TREE = Tree(root=Path("/tree"), top=Path("/tree"), label="a tree", notes=("submodule deps is empty",))
BLOCK_S = 0.5


def candidate(name, spec="aten"):
    return Candidate(case=Case.make("rms_norm", "forward", (name, 8), "float32"), base_spec=spec, head_spec=spec)


# Rows stand for names: each test says what the case of so many rows does.
SAME, SLOW, FAST, BREAKS, HANGS, WRONG, GONE, NOISY = range(1, 9)
SHIFTS = {SLOW: 0.10, FAST: -0.10}
CONTROLS = (candidate(100, CONTROL),)


class Clock:
    """Advance by what blocks take, and not otherwise."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Player:
    """Stand in for the measuring process; `script` may change what a case's blocks show."""

    started = []
    clock = None
    shifts = {}
    rng = Random(0)
    interrupt_after = None

    def __init__(self, *, setup, setup_argument, environment, log):
        self.is_closed = False
        self.prepared = [one.case.shape[0] for one in setup_argument.prepared]
        Player.started.append(self)
        self.tasks = []

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.is_closed = True

    def run(self, task, argument, *, timeout_s):
        assert not self.is_closed
        self.tasks.append(argument)
        name = argument.case.shape[0]
        if isinstance(argument, CheckTask):
            yield from self._check(name, argument)
            return
        assert isinstance(argument, BlockTask)
        assert name in self.prepared
        Player.clock.now += BLOCK_S
        if Player.interrupt_after is not None and len(self.tasks) > Player.interrupt_after:
            raise KeyboardInterrupt
        if name == BREAKS and len(self.tasks) > 4:
            raise TaskDied("the process was killed by signal 11", 11)
        if name == HANGS:
            self.is_closed = True
            raise TaskTimeout("no answer for 120 s")
        yield self._block(name, argument)

    def _check(self, name, task):
        for arm in task.providers:
            yield ("begin", arm)
            status = Status.OK
            if arm.startswith("head"):
                status = {WRONG: Status.WRONG, GONE: Status.UNSUPPORTED}.get(name, Status.OK)
            yield CheckResult(provider=arm, status=status, reason=None if status is Status.OK else "because")

    def _block(self, name, task):
        spread = 0.2 if name == NOISY else 0.002
        shift = Player.shifts.get(name, SHIFTS.get(name, 0.0)) + Player.rng.gauss(0, spread)
        samples = {"base": (1e-3, 1e-3), "head": (1e-3 * exp(shift),) * 2}
        blocks = {
            arm: Block(started_at=Player.clock.now, inner=task.schedule.inner[arm], samples_s=(samples[arm.split()[0]],))
            for arm in task.providers
        }
        return BlockResult(timer="played", blocks=blocks)


@pytest.fixture(autouse=True)
def play(monkeypatch):
    monkeypatch.setattr(conducting, "Worker", Player)
    Player.started, Player.clock, Player.shifts, Player.rng, Player.interrupt_after = [], Clock(), {}, Random(0), None


def question(*names, budget_s=1000.0, controls=CONTROLS, **fields):
    return Question(
        base=TREE,
        head=TREE,
        candidates=tuple(candidate(name) for name in names),
        controls=controls,
        conditions=Conditions(device="cpu", threads=1),
        policy=Policy(),
        budget_s=budget_s,
        seed=0,
        log=Path("log"),
        clock=Player.clock,
        **fields,
    )


def run(*names, observer=None, **fields):
    return conduct(question(*names, **fields), observer or Observer())


def verdicts(outcome):
    return [one.decision.verdict for one in outcome.cases]


def test_the_same_code_passes_at_the_first_look():
    outcome = run(SAME)
    assert (verdicts(outcome), outcome.exit_code, outcome.end) == ([Verdict.PASS], ExitCode.PASS, RunEnd.COMPLETE)
    assert outcome.cases[0].decision.blocks == Policy().looks[0]


def test_slower_code_is_red_and_faster_code_is_not():
    outcome = run(SAME, SLOW, FAST)
    assert verdicts(outcome) == [Verdict.PASS, Verdict.REGRESSION, Verdict.IMPROVEMENT]
    assert outcome.exit_code is ExitCode.REGRESSION


def test_what_is_decided_gets_no_more_blocks():
    seen = Counter()
    outcome = run(SAME, NOISY, observer=Observer(block=lambda block: seen.update([block.candidate])))
    quiet, noisy = (one.case for one in outcome.cases)
    assert seen[quiet] == Policy().looks[0]
    assert seen[noisy] == Policy().looks[-1]


def test_a_control_is_measured_to_the_end_and_one_that_moves_makes_the_run_invalid():
    # It is steady at the first look and moves later, while another case still needs blocks.
    taken = Counter()

    def move(block):
        taken[block.candidate] += 1
        if taken[CONTROLS[0].id] == Policy().looks[0]:
            Player.shifts[100] = 0.2

    outcome = run(NOISY, SAME, observer=Observer(block=move))
    assert taken[CONTROLS[0].id] == Policy().looks[-1]
    assert outcome.exit_code is ExitCode.INVALID
    assert "control" in outcome.sentence


@pytest.mark.parametrize(
    ("name", "verdict", "code"),
    [(WRONG, Verdict.WRONG, ExitCode.REGRESSION), (GONE, Verdict.MISSING, ExitCode.MISSING)],
)
def test_what_head_gets_wrong_or_lacks_is_never_timed_and_fails(name, verdict, code):
    outcome = run(SAME, name)
    assert verdicts(outcome) == [Verdict.PASS, verdict]
    assert outcome.exit_code is code
    assert not any(isinstance(task, BlockTask) and task.case.shape[0] == name for worker in Player.started for task in worker.tasks)


def test_what_may_be_missing_does_not_fail():
    assert run(SAME, GONE, allowed_missing=(candidate(GONE).id,)).exit_code is ExitCode.PASS


@pytest.mark.parametrize(("name", "words"), [(BREAKS, "signal 11"), (HANGS, "no answer for 120 s")])
def test_a_block_that_dies_or_hangs_fails_its_case_and_the_others_go_on(name, words):
    outcome = run(name, SAME)
    assert verdicts(outcome) == [Verdict.FAILED, Verdict.PASS]
    assert words in outcome.cases[0].decision.reason


def test_after_a_hang_the_next_process_has_only_what_is_still_measured():
    run(HANGS, SAME)
    assert HANGS not in Player.started[-1].prepared


def test_both_arms_get_the_calls_per_sample_of_base():
    run(SAME)
    for worker in Player.started:
        for task in worker.tasks:
            if isinstance(task, BlockTask):
                assert len(set(task.schedule.inner.values())) == 1


def test_a_budget_that_runs_out_ends_the_blocks_and_judges_what_there_is():
    outcome = run(NOISY, budget_s=10.0)
    assert 0 < outcome.cases[0].decision.blocks < Policy().looks[-1]
    assert outcome.cases[0].decision.verdict is Verdict.NOT_GATEABLE
    assert Player.clock.now <= 10.0 + 2 * BLOCK_S


def test_an_interrupted_run_is_no_pass_and_leaves_no_process():
    Player.interrupt_after = 6
    outcome = run(SAME, SLOW)
    assert outcome.end is RunEnd.INTERRUPTED
    assert outcome.exit_code is ExitCode.INVALID
    assert all(worker.is_closed for worker in Player.started)


def test_no_process_is_left_when_something_else_goes_wrong():
    def fail(block):
        raise NormbenchError("the disk is full")

    with pytest.raises(NormbenchError, match="disk"):
        run(SAME, observer=Observer(block=fail))
    assert all(worker.is_closed for worker in Player.started)


def test_a_gate_that_could_never_turn_red_is_refused_before_anything_starts():
    with pytest.raises(UsageError, match="could never turn red"):
        conduct(replace(question(SAME), policy=Policy(looks=(4, 5))), Observer())
    assert Player.started == []


def test_notes_of_the_trees_reach_the_outcome():
    assert run(SAME).notes == TREE.notes
