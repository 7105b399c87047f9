"""Candidates are timed side by side as ratios to today's launch, and only where they compute the same."""

import pytest
import torch
from measure.clockwork import FakeTimer

from normbench.errors import NormbenchError
from normbench.kernels.calls import Backward, Forward
from normbench.tuning.operands import outputs_of
from normbench.tuning.timing import ratios_of, require_same


def forward(y):
    return Forward(y=y, residual_out=None, mean=None, rstd=None)


def test_times_are_ratios_to_the_first():
    timer = FakeTimer()
    found = ratios_of({"today": timer.call("today", 2e-3), "other": timer.call("other", 1e-3)}, timer, seed=0)
    assert found["today"].estimate == pytest.approx(1.0)
    assert found["other"].estimate == pytest.approx(0.5)


def test_all_take_turns():
    timer = FakeTimer()
    ratios_of({"today": timer.call("today", 2e-3), "other": timer.call("other", 2e-3)}, timer, seed=0)
    order = [event for event in timer.events if event in ("today", "other")]
    assert order.count("today") == order.count("other")
    # Warm-up apart, neither is done before the other begins.
    assert {"today", "other"} <= set(order[len(order) // 2 :])


def test_a_first_call_that_compiles_does_not_count():
    timer = FakeTimer()
    found = ratios_of({"today": timer.call("today", 1e-3), "other": timer.call("other", [9.0, 1e-3])}, timer, seed=0)
    assert found["other"].estimate == pytest.approx(1.0)


def test_the_same_outputs_in_another_order_of_addition_pass():
    y = torch.randn(4, 8)
    require_same({"today": lambda: forward(y), "other": lambda: forward(y * (1 + 1e-7))})
    short = y.bfloat16()
    require_same({"today": lambda: forward(short), "other": lambda: forward(torch.nextafter(short, short + 1))})


def test_other_outputs_are_refused_by_name():
    y = torch.randn(4, 8)
    missing = y.clone()
    missing[3] = 0
    for other in (y + 0.1, missing, torch.full_like(y, torch.nan)):
        with pytest.raises(NormbenchError, match="the launch 1 x 8 computes another y than 4 x 8: off by"):
            require_same({"4 x 8": lambda: forward(y), "1 x 8": lambda other=other: forward(other)})


def test_outputs_are_those_that_are_there():
    t = torch.ones(1)
    assert outputs_of(forward(t)).keys() == {"y"}
    assert outputs_of(Backward(dx=t, dweight=t, dbias=None)).keys() == {"dx", "dweight"}
