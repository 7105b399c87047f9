"""The controls of a norm call do what every provider must: copy x, allocate the outputs."""

from __future__ import annotations

import pytest
import torch

from normbench.cases.case import Case
from normbench.oracle.problem import make_problem
from normbench.records.record import ALLOCATE
from normbench.workloads.op import control_calls


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
def test_as_many_tensors_are_allocated_as_a_call_returns_of_full_size(has_residual, pass_, monkeypatch):
    case = Case.make("rms_norm", pass_, (4, 8), "float32", residual=has_residual)
    call = control_calls(make_problem(case, device="cpu", seed=0))[ALLOCATE]
    made, empty_like = [], torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda x: made.append(x.shape) or empty_like(x))
    call()
    # Forward y, and what x and the residual add up to; backward one gradient, which both share.
    forward = 1 + has_residual
    assert len(made) == {"forward": forward, "backward": 1, "forward_backward": forward + 1}[pass_]
