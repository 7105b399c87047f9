"""Training writes down losses, the trunk and the first step that is not finite; NaN ends it and is a result."""

from __future__ import annotations

from math import inf, isnan

import pytest

from normbench.studies.observation import Trial
from normbench.studies.toy import ToyNetwork
from normbench.studies.training import observe_training

pytestmark = pytest.mark.usefixtures("one_thread")


def trained(*, steps=20, rate=1e-3, seed=0, warmup=0, optimiser="adam", **network):
    trial = Trial(setting={"rate": rate}, seed=seed)
    return observe_training("s", trial, lambda: ToyNetwork(2, **network), steps=steps, rate=rate, warmup=warmup, optimiser=optimiser)


def test_loss_falls_and_a_seed_gives_the_same_bits():
    found = trained()
    assert found.value("final_loss") == found.value("loss_20") < found.value("loss_0")
    assert found.value("first_nonfinite") == inf
    assert found == trained()
    assert found != trained(seed=1)


def test_losses_are_taken_at_the_logged_steps_and_the_last():
    assert [x for x, _ in trained(steps=150).curve("validation loss")] == [0, 100, 150]


def test_nan_ends_training_and_is_written_down():
    found = trained(rate=1e6, optimiser="sgd", norm="none", final_norm=False)
    assert 0 < found.value("first_nonfinite") <= 20
    assert isnan(found.value("final_loss"))
    assert found.value("largest_exit_norm") == inf


def test_warm_up_begins_with_smaller_steps():
    slow, fast = trained(steps=5, warmup=1000), trained(steps=5)
    assert fast.value("final_loss") < slow.value("final_loss") < slow.value("loss_0")


def test_gradients_have_a_variance_at_the_start_and_at_the_end():
    found = trained()
    assert found.value("gradient_variance_start") > 0
    assert found.value("gradient_variance_start") != found.value("gradient_variance_end")
