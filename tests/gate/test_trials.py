"""Whole runs of the gate: planned in a fair order, and ended by Ctrl-C."""

from __future__ import annotations

from collections import Counter

import pytest

from normbench.cases.case import Case
from normbench.errors import UsageError
from normbench.gate import trials as running
from normbench.gate.outcome import ExitCode, Outcome, RunEnd
from normbench.gate.policy import Policy
from normbench.gate.stored_validation import Subject, read_validation
from normbench.gate.trials import Trials, validate

from .made import CASES, CONDITIONS, trial


def trials(**changes):
    fields = {
        "subjects": CASES,
        "slowdowns": (0.0, 0.05, 0.03),
        "runs": 4,
        "policy": Policy(),
        "conditions": CONDITIONS,
        "budget_s": 60.0,
        "seed": 7,
    }
    return Trials(**{**fields, **changes})


def test_every_round_has_each_size_once_and_the_slowed_case_moves_on():
    order = list(trials().order())
    rounds = [order[start : start + 3] for start in range(0, 12, 3)]
    assert all({size for size, _ in one} == {0.0, 0.03, 0.05} for one in rounds)
    assert all((slowed is None) == (size == 0) for size, slowed in order)
    assert Counter(slowed.id for _, slowed in order if slowed) == {CASES[0].id: 4, CASES[1].id: 4}
    assert len({tuple(size for size, _ in one) for one in rounds}) > 1, "sizes come in random order"


def test_seed_decides_which_case_is_slowed_first_so_that_pieces_of_one_run_cover_all():
    firsts = {next(slowed.id for _, slowed in trials(runs=1, seed=seed).order() if slowed) for seed in (0, 1)}
    assert firsts == {one.id for one in CASES}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": 0}, "0 runs are none"),
        ({"slowdowns": ()}, "are no slow-downs"),
        ({"slowdowns": (1.5,)}, "are no slow-downs"),
        ({"subjects": (Subject(provider="aten", case=Case.make("rms_norm", "backward", (1, 64), "float32")),)}, "`backward` does not time"),
    ],
)
def test_what_cannot_be_tried_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        trials(**changes)


def test_run_that_ctrl_c_cut_short_is_no_trial_and_ends_the_validation(tmp_path, monkeypatch):
    cut = Outcome(sentence="", exit_code=ExitCode.INVALID, end=RunEnd.INTERRUPTED, policy=Policy(), cases=(), controls=())
    monkeypatch.setattr(running, "_run", lambda *args, **options: (trial("a"), cut))
    with pytest.raises(KeyboardInterrupt):
        validate(
            trials(slowdowns=(0.0,)),
            root=tmp_path,
            command=(),
            machine={},
            versions={},
            observer=lambda *told: pytest.fail(f"told of {told}"),
            watched=lambda question: None,
        )
    (kept,) = tmp_path.iterdir()
    assert read_validation(kept).trials == ()
