"""Lanes and their work: who waits for whom, what is left out, and a verdict for all that was asked whatever happens to a process."""

import pytest

from normbench.cases.adversary import Layout, Trial, Values
from normbench.cases.case import Case
from normbench.checkup import examiner
from normbench.checkup.examiner import Lane, examine, make_lanes
from normbench.checkup.plan import Examination, of_cases
from normbench.errors import NormbenchError, UsageError
from normbench.measure.checking import Begun, CheckResult, Purpose
from normbench.records.record import Status

CASE = Case.make("rms_norm", "forward", (70, 64), "float32")
TRIALS = tuple(Trial(values=values) for values in (Values.NORMAL, Values.HUGE, Values.NAN))


def examinations(count):
    cases = [Case.make("rms_norm", "forward", (8, 16 + place), "float32") for place in range(count)]
    return of_cases(cases, values=list(Values), layouts=[Layout.CONTIGUOUS])


def lane_of(name, lanes):
    (found,) = [lane for lane in lanes if name in lane.providers]
    return found


def test_who_compiles_and_who_is_interpreted_hold_up_nobody_else():
    lanes = make_lanes(["triton", "eager", "compile", "aten"], examinations(2), device="cpu", thorough=True)
    assert [(lane.providers, lane.in_interpreter) for lane in lanes] == [
        (("eager", "aten"), False),
        (("compile",), False),
        (("triton",), True),
    ]
    assert all(lane.note == "" and lane.examinations == tuple(examinations(2)) for lane in lanes)


def test_on_a_gpu_nobody_is_interpreted():
    (lane,) = make_lanes(["triton", "eager"], examinations(2), device="cuda", thorough=True)
    assert not lane.in_interpreter


def test_the_slow_take_part_of_it_and_say_how_much():
    asked = [
        *examinations(40),
        *of_cases(
            [Case.make("rms_norm", "forward", (1, 2**16 + place), "float32") for place in range(5)],
            values=list(Values),
            layouts=[Layout.CONTIGUOUS],
        ),
    ]
    lanes = make_lanes(["eager", "compile", "triton"], asked, device="cpu", thorough=False)
    fast, compiled, interpreted = (lane_of(name, lanes) for name in ("eager", "compile", "triton"))
    assert [one.case for one in fast.examinations] == [one.case for one in asked]
    assert {len(one.trials) for one in fast.examinations} == {5}
    assert len(compiled.examinations) == 28
    assert [len(one.trials) for one in interpreted.examinations] == [2] * 40 + [1]
    left_out = f"81 of {sum(len(one.trials) for one in asked)} trials, of 41 of 45 cases"
    assert interpreted.note == f"{left_out}; of those with more than 32768 elements one of each norm and pass"
    assert interpreted.size == 81


def test_the_interpreter_takes_a_row_that_needs_loops_of_every_norm_and_pass():
    """Kernels of such rows are others than those of short ones, and those of LayerNorm others than those of RMSNorm."""
    asked = of_cases(
        [
            Case.make(norm, pass_, shape, "float32")
            for shape in ((3, 16385), (1, 72704), (2, 32769))
            for norm in ("rms_norm", "layer_norm")
            for pass_ in ("forward", "forward_backward")
        ],
        values=[Values.NORMAL],
        layouts=[Layout.CONTIGUOUS],
    )
    (lane,) = make_lanes(["triton"], asked, device="cpu", thorough=False)
    assert {one.case.shape for one in lane.examinations} == {(2, 32769)}
    assert {(one.case.norm.value, one.case.pass_.value) for one in lane.examinations} == {
        (norm, pass_) for norm in ("rms_norm", "layer_norm") for pass_ in ("forward", "forward_backward")
    }


def test_an_unknown_provider_is_refused():
    with pytest.raises(UsageError, match="'atem' is unknown"):
        make_lanes(["atem"], examinations(1), device="cpu", thorough=False)


class ScriptedServers:
    """Stand in for processes: every provider is right, but who dies takes the task down with it."""

    tasks: list = []
    dies: set = set()
    closed = 0

    def __init__(self, providers, *, device, log, timeout_s):
        assert log.parent.is_dir()

    def run(self, task, argument, *, interpreter=False):
        if task.endswith("describe_device"):
            yield {"type": "cpu"}
            return
        self.tasks.append(argument)
        for trial in argument.trials:
            for provider in argument.providers:
                yield Begun(provider)
                if (provider, trial.values) in self.dies:
                    raise NormbenchError("the process was killed by signal 11, SIGSEGV")
            yield Begun(None)
            if (None, trial.values) in self.dies:
                raise NormbenchError("no answer for 300 s")
            for provider in argument.providers:
                yield CheckResult(provider=provider, trial=trial, status=Status.OK)

    def close(self):
        type(self).closed += 1


@pytest.fixture
def servers(monkeypatch):
    monkeypatch.setattr(examiner, "Servers", ScriptedServers)
    for name, value in (("tasks", []), ("dies", set()), ("closed", 0)):
        monkeypatch.setattr(ScriptedServers, name, value)
    return ScriptedServers


def run(*providers, trials=TRIALS, case=CASE, **options):
    told = []
    lane = Lane(providers=providers, examinations=(Examination(case=case, trials=trials),), **options)
    verdicts = examine([lane], device="cpu", seed=5, observe=told.append)
    assert told == verdicts
    return verdicts


def statuses(verdicts):
    return [(one.trial.values.value, one.provider, one.status.value) for one in verdicts]


def test_one_task_holds_all_trials_and_providers(servers):
    verdicts = run("a", "b")
    (task,) = servers.tasks
    assert (task.case, task.providers, task.trials, task.seed, task.purpose) == (CASE, ("a", "b"), TRIALS, 5, Purpose.VERDICT)
    assert statuses(verdicts) == [(trial.values.value, name, "ok") for trial in TRIALS for name in ("a", "b")]
    assert servers.closed


def test_who_dies_has_an_error_in_that_trial_and_the_others_go_on(servers):
    servers.dies = {("a", Values.HUGE)}
    verdicts = run("a", "b", "c")
    wanted = {(values.value, name): "ok" for values in (Values.NORMAL, Values.HUGE, Values.NAN) for name in "abc"}
    wanted["huge", "a"] = "error"
    assert {(values, name): status for values, name, status in statuses(verdicts)} == wanted
    (error,) = [one for one in verdicts if one.status is Status.ERROR]
    assert error.reason == "the process was killed by signal 11, SIGSEGV"
    assert error.is_failure


def test_all_are_at_fault_when_nobody_can_be_named_and_it_ends(servers):
    servers.dies = {(None, Values.HUGE)}
    found = {(values, name): status for values, name, status in statuses(run("a", "b"))}
    assert {key for key, status in found.items() if status == "error"} == {("huge", "a"), ("huge", "b")}
    assert len(found) == 6


def test_everybody_may_die_everywhere(servers):
    servers.dies = {(name, trial.values) for name in "ab" for trial in TRIALS}
    assert [status for _, _, status in statuses(run("a", "b"))] == ["error"] * 6


def test_in_the_interpreter_a_few_rows_are_checked_and_the_verdict_says_so(servers):
    (verdict,) = run("a", trials=TRIALS[:1], in_interpreter=True)
    assert (verdict.case.rows, verdict.rows_checked, verdict.in_interpreter) == (70, 61, True)


def test_large_cases_are_checked_on_fewer_rows(servers):
    case = Case.make("rms_norm", "forward", (4, 1024, 4096), "float32")
    (verdict,) = run("a", trials=TRIALS[:1], case=case)
    # 2^21 elements are 512 rows of 4096.
    assert verdict.rows_checked == 512
    assert servers.tasks[0].case.shape == (1, 512, 4096)


def test_values_that_need_more_rows_than_are_checked_are_skipped_in_words(servers):
    case = Case.make("rms_norm", "forward", (2, 2**22), "float32")
    ordinary, huge, nan = run("a", case=case)
    assert (ordinary.status, huge.status) == (Status.OK, Status.OK)
    assert (nan.status, nan.reason) == (Status.SKIPPED, "needs more than the 1 of 2 rows that are checked")
    assert not nan.is_failure


def test_a_refusal_in_one_lane_ends_all(servers, monkeypatch):
    def refuse(self, task, argument, *, interpreter=False):
        raise UsageError("device 'cuda:99' is not there")

    monkeypatch.setattr(ScriptedServers, "run", refuse)
    lane = Lane(providers=("a",), examinations=(Examination(case=CASE, trials=TRIALS),))
    with pytest.raises(UsageError, match="cuda:99"):
        examine([lane, lane], device="cuda:99", seed=0, observe=lambda verdict: None)
    assert servers.closed >= 2
