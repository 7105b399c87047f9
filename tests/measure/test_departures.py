"""A check holds each provider to the formula that it says it computes, and tells how far that is from the norm's own."""

import pytest
import torch

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.definition import Definition
from normbench.measure import checking, process
from normbench.measure.checking import CheckResult, CheckTask
from normbench.records.record import Status
from normbench.registry import Registry

CPU = Conditions(device="cpu", threads=1)
# With eps of the size of mean(x^2) the two formulas are far apart.
CASE = Case.make("rms_norm", "forward", (8, 32), "float32", eps=1.0)


@pytest.fixture
def results(monkeypatch):
    """Return what a check of `guide` and `aten` tells, by provider."""
    registry, messages = Registry(), []
    monkeypatch.setattr(process, "_providers", {name: registry.resolve(name) for name in ("guide", "aten")})
    monkeypatch.setattr(checking, "prepare_process", lambda conditions, case, pages: torch.device("cpu"))
    with torch.no_grad():
        checking.check(CheckTask(case=CASE, conditions=CPU, providers=("guide", "aten"), seed=0), messages.append)
    return {message.provider: message for message in messages if isinstance(message, CheckResult)}


def test_each_is_right_by_what_it_computes(results):
    assert {name: result.status for name, result in results.items()} == {"guide": Status.OK, "aten": Status.OK}
    assert all(entry.error <= 1 for result in results.values() for entry in result.accuracy)


def test_the_distance_from_the_norms_own_formula_comes_with_it(results):
    (apart,) = results["guide"].departure.accuracy
    assert results["guide"].departure.definition is Definition.EPS_OUTSIDE_ROOT
    assert apart.tensor == "y"
    # 1 / (1 + 1) in place of 1 / sqrt(1 + 1), about.
    assert apart.max_abs > 0.1
    assert not apart.passed


def test_what_computes_the_formula_departs_from_nothing(results):
    assert results["aten"].departure is None
