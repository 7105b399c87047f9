"""A study is run once: finished trials are not run again, and processes of their own give the same bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from normbench.studies.collapse import COLLAPSE
from normbench.studies.conduct import conduct, observe_all
from normbench.studies.drift import DRIFT
from normbench.studies.journal import JOURNALS
from normbench.studies.study import Scale

from .running import only


def silent(*_):
    pass


def test_finished_trials_are_not_run_again(tmp_path):
    run = []

    def watched(trial, common):
        run.append(trial.key)
        return DRIFT.observe(trial, common)

    study = replace(DRIFT, observe=watched)
    first = conduct(study, Scale(seeds=1), tmp_path, resume=False, jobs=1, started=silent, done=silent)
    assert len(run) == len(first) == len(JOURNALS.read(tmp_path)[1])
    more = conduct(study, Scale(seeds=2), tmp_path, resume=True, jobs=1, started=silent, done=silent)
    assert len(more) == 2 * len(first)
    assert len(run) == len(set(run)) == len(more)
    assert {one.key for one in first} < {one.key for one in more}


def test_interrupted_study_keeps_what_was_finished(tmp_path):
    def breaks_at_third(trial, common):
        if len(JOURNALS.read(tmp_path)[1]) == 2:
            raise KeyboardInterrupt
        return DRIFT.observe(trial, common)

    with pytest.raises(KeyboardInterrupt):
        conduct(replace(DRIFT, observe=breaks_at_third), Scale(seeds=1), tmp_path, resume=False, jobs=1, started=silent, done=silent)
    assert len(JOURNALS.read(tmp_path)[1]) == 2


def test_costs_are_told_as_trials_are_done(tmp_path):
    told = []
    study = only(DRIFT, Scale(seeds=1), lambda trial: trial.setting["norm"] == "none")
    conduct(
        study, Scale(seeds=1), tmp_path, resume=False, jobs=1, started=lambda *costs: told.append(costs), done=lambda *one: told.append(one)
    )
    (total, before), *trials = told
    assert before == 0
    assert total == len(trials) == sum(cost for _, cost in trials)


def test_threads_are_as_before_and_one_while_it_runs():
    before = torch.get_num_threads()
    seen = []
    study = replace(DRIFT, observe=lambda trial, common: (seen.append(torch.get_num_threads()), DRIFT.observe(trial, common))[1])
    list(observe_all(study, DRIFT.plan(Scale(seeds=1)).trials[:1], {}))
    assert seen == [1]
    assert torch.get_num_threads() == before


def test_processes_of_their_own_give_the_same_bits():
    scale = Scale(quick=True, steps=1)
    common = COLLAPSE.plan(scale).common
    trials = [one for one in COLLAPSE.plan(scale).trials if one.setting["depth"] == 6][:2]
    here = {one.key: one for one in observe_all(COLLAPSE, trials, common)}
    there = {one.key: one for one in observe_all(COLLAPSE, trials, common, jobs=2)}
    assert there == here
