"""A gate run from checks to outcome, in an arena that plays what a test wrote; nothing is timed."""

from collections import Counter
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random

import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.errors import NormbenchError, UsageError
from normbench.gate.conduct import Observer, Question, conduct
from normbench.gate.decide import Verdict
from normbench.gate.outcome import Code, ExitCode, RunEnd, Sameness
from normbench.gate.policy import Policy
from normbench.gate.process import CONTROL, Candidate
from normbench.gate.standing import BlockSamples
from normbench.gate.trees import Tree
from normbench.measure.checking import CheckResult
from normbench.measure.worker import TaskDied, TaskTimeout
from normbench.records.record import Status

TREE = Tree(root=Path("/tree"), top=Path("/tree"), label="a tree", notes=("submodule deps is empty",))
BLOCK_S = 0.5


def candidate(name, spec="aten"):
    return Candidate(case=Case.make("rms_norm", "forward", (name, 8), "float32"), base_spec=spec, head_spec=spec)


# Rows stand for names: each test says what the case of so many rows does.
SAME, SLOW, FAST, BREAKS, HANGS, WRONG, GONE, NOISY, DRAGGED = range(1, 10)
SHIFTS = {SLOW: 0.10, FAST: -0.10, DRAGGED: 0.10}
CONTROLS = (candidate(100, CONTROL),)


class Clock:
    """Advance by what blocks take, and not otherwise."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Player:
    """Stand in for an arena; `shifts` may change what a case's blocks show."""

    made = []
    clock = None
    shifts = {}
    rng = Random(0)
    interrupt_after = None
    renewal_s = 0.0
    notes = ("played",)

    def __init__(self, setup, log):
        self.is_ready = False
        self.is_closed = False
        self.preparations = []
        self.blocks = []
        self.rounds = []
        Player.made.append(self)

    def close(self):
        self.is_closed = True

    def check(self, candidate):
        status = {WRONG: Status.WRONG, GONE: Status.UNSUPPORTED}.get(candidate.case.shape[0], Status.OK)
        reason = None if status is Status.OK else "because"
        base, head = candidate.arms
        return CheckResult(provider=base, status=Status.OK), CheckResult(provider=head, status=status, reason=reason)

    def prepare(self, candidates):
        assert not self.is_ready
        self.preparations.append([one.case.shape[0] for one in candidates])
        self.is_ready = True

    def renew(self, candidates):
        assert self.is_ready
        self.rounds.append([one.case.shape[0] for one in candidates])
        Player.clock.now += Player.renewal_s

    def code(self, candidate):
        assert candidate.case.shape[0] in self.preparations[-1]
        same = candidate.case.shape[0] in (SAME, DRAGGED)
        return Code(text="played", same=Sameness.FILES if same else None)

    def block(self, candidate, schedule, *, seed, peak_bytes):
        name = candidate.case.shape[0]
        assert self.is_ready
        assert name in self.preparations[-1]
        Player.clock.now += BLOCK_S
        self.blocks.append((name, schedule))
        if Player.interrupt_after is not None and len(self.blocks) > Player.interrupt_after:
            raise KeyboardInterrupt
        if name == BREAKS and len(self.blocks) > 4:
            raise TaskDied("the process was killed by signal 11", 11)
        if name == HANGS:
            self.is_ready = False
            raise TaskTimeout("no answer for 120 s")
        spread = 0.2 if name == NOISY else 0.002
        shift = Player.shifts.get(name, SHIFTS.get(name, 0.0)) + Player.rng.gauss(0, spread)
        return BlockSamples(
            candidate=candidate.id,
            started_at=Player.clock.now,
            inner=schedule.inner[candidate.arms[0]],
            base_s=((1e-3, 1e-3),),
            head_s=((1e-3 * exp(shift),) * 2,),
        )


@pytest.fixture(autouse=True)
def play():
    Player.made, Player.clock, Player.shifts, Player.rng = [], Clock(), {}, Random(0)
    Player.interrupt_after, Player.renewal_s = None, 0.0


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
        arena=Player,
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
    (arena,) = Player.made
    assert {measured for measured, _ in arena.blocks} == {SAME, 100}


def test_what_may_be_missing_does_not_fail():
    assert run(SAME, GONE, allowed_missing=(candidate(GONE).id,)).exit_code is ExitCode.PASS


@pytest.mark.parametrize(("name", "words"), [(BREAKS, "signal 11"), (HANGS, "no answer for 120 s")])
def test_a_block_that_dies_or_hangs_fails_its_case_and_the_others_go_on(name, words):
    outcome = run(name, SAME)
    assert verdicts(outcome) == [Verdict.FAILED, Verdict.PASS]
    assert words in outcome.cases[0].decision.reason


def test_after_a_hang_the_next_process_has_only_what_is_still_measured():
    run(HANGS, SAME)
    (arena,) = Player.made
    assert arena.preparations == [[HANGS, SAME, 100], [SAME, 100]]


def test_both_arms_get_the_calls_per_sample_of_base():
    run(SAME)
    (arena,) = Player.made
    assert arena.blocks
    assert all(len(set(schedule.inner.values())) == 1 for _, schedule in arena.blocks)


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
    assert [arena.is_closed for arena in Player.made] == [True]


def test_no_process_is_left_when_something_else_goes_wrong():
    def fail(block):
        raise NormbenchError("the disk is full")

    with pytest.raises(NormbenchError, match="disk"):
        run(SAME, observer=Observer(block=fail))
    assert [arena.is_closed for arena in Player.made] == [True]


def test_a_gate_that_could_never_turn_red_is_refused_before_anything_starts():
    with pytest.raises(UsageError, match="could never turn red"):
        conduct(replace(question(SAME), policy=Policy(looks=(4, 5))), Observer())
    assert Player.made == []


def test_notes_of_the_trees_and_of_the_arena_reach_the_outcome():
    assert run(SLOW).notes == (*TREE.notes, *Player.notes)


def test_a_case_of_the_same_code_is_measured_all_the_same_and_when_it_is_slower_the_sentence_says_that_its_code_is_not_why():
    outcome = run(SAME, DRAGGED, SLOW)
    assert [one.is_same_code for one in outcome.cases] == [True, True, False]
    assert verdicts(outcome) == [Verdict.PASS, Verdict.REGRESSION, Verdict.REGRESSION]
    assert f"The code of {candidate(DRAGGED).id} is the same in both arms" in outcome.sentence


def test_every_round_begins_with_processes_that_make_its_blocks_independent_of_the_last_ones():
    run(SAME, NOISY)
    (arena,) = Player.made
    # One more, before the first, tells what it takes.
    assert len(arena.rounds) == 1 + Policy().looks[-1]
    assert arena.rounds[0] == [SAME, NOISY, 100]
    assert arena.rounds[-1] == [NOISY, 100]


def test_what_beginning_a_round_takes_is_counted_in_the_budget():
    Player.renewal_s = 3.0
    outcome = run(NOISY, budget_s=40.0)
    assert 0 < outcome.cases[0].decision.blocks < 40 / (3.0 + 2 * BLOCK_S)
    assert Player.clock.now <= 40.0 + 2 * BLOCK_S
