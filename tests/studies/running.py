"""Run some of a study's trials in this process."""

from __future__ import annotations

from dataclasses import replace

from normbench.studies.conduct import observe_all
from normbench.studies.study import Scale

QUICK = Scale(quick=True)


def observed(study, scale=QUICK, **setting):
    """Return the observations of the trials whose setting has all of these values."""
    plan = study.plan(scale)
    trials = [one for one in plan.trials if all(one.setting.get(name) == value for name, value in setting.items())]
    return list(observe_all(study, trials, plan.common))


def only(study, scale, keep):
    """Return the study with the trials that `keep` lets through."""
    trials = tuple(one for one in study.plan(scale).trials if keep(one))
    return replace(study, plan=lambda wanted: replace(study.plan(wanted), trials=trials))
