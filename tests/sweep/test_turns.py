"""An arm runs in a process of its own under a limit of memory that holds."""

from __future__ import annotations

import pytest

from normbench.measure.measurer import Measurer
from normbench.measure.plan import Plan
from normbench.measure.process import OutOfMemory
from normbench.sweep.turns import TurnsTask

from .made import question

MIB = 2**20
TURNS = "normbench.sweep.turns:take_turns"


@pytest.fixture(scope="module")
def measurer(tmp_path_factory):
    with Measurer(("eager", "aten"), device="cpu", plan=Plan(), log=tmp_path_factory.mktemp("turns") / "log") as found:
        found.load_networks(question().cases)
        yield found


def task(mode="train", batch=1, limit_bytes=256 * MIB, arms=("rms_norm:aten",), **changes):
    asked = question(modes=(mode,), budget_s=0.2)
    arm = next(iter(asked.companies.values()))[0]
    return TurnsTask(
        case=arm.at(batch), conditions=asked.conditions, arms=arms, plan=asked.plan, seed=1, limit_bytes=limit_bytes, **changes
    )


@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_every_mode_is_timed_and_its_memory_is_within_the_limit(measurer, mode):
    (result,) = measurer.run_task(TURNS, task(mode, is_thorough=True))
    assert result.samples_s.keys() == {"rms_norm:aten"}
    assert all(sample > 0 for sample in result.samples_s["rms_norm:aten"])
    assert result.spent_s > sum(result.samples_s["rms_norm:aten"])
    # The network of 1.5 million parameters in float32, and with an optimiser three times that, is the least there is.
    assert (4 if mode != "train" else 12) * MIB < result.peak_bytes < 256 * MIB


def test_batch_that_does_not_fit_is_out_of_memory_and_the_server_lives_on(measurer):
    with pytest.raises(OutOfMemory, match="can't allocate memory"):
        measurer.run_task(TURNS, task(batch=256, limit_bytes=128 * MIB))
    (smaller,) = measurer.run_task(TURNS, task(batch=2, limit_bytes=128 * MIB))
    (larger,) = measurer.run_task(TURNS, task(batch=16, limit_bytes=512 * MIB))
    assert larger.peak_bytes > smaller.peak_bytes + 10 * MIB


def test_limit_is_met_closely(measurer):
    (free,) = measurer.run_task(TURNS, task(batch=16, limit_bytes=None))
    (close,) = measurer.run_task(TURNS, task(batch=16, limit_bytes=free.peak_bytes + 24 * MIB))
    assert close.peak_bytes < free.peak_bytes + 24 * MIB
    with pytest.raises(OutOfMemory):
        measurer.run_task(TURNS, task(batch=16, limit_bytes=free.peak_bytes - 24 * MIB))


def test_decode_fits_only_if_its_last_position_does(measurer):
    fitting = task("decode", batch=64, limit_bytes=None)
    (first,) = measurer.run_task(TURNS, fitting)
    (all_written,) = measurer.run_task(TURNS, task("decode", batch=64, limit_bytes=None, is_thorough=True))
    assert all_written.peak_bytes > first.peak_bytes


def test_arms_take_turns_with_networks_of_their_own(measurer):
    arms = ("layer_norm:eager", "layer_norm:aten", "rms_norm:aten")
    (result,) = measurer.run_task(TURNS, task(arms=arms))
    (alone,) = measurer.run_task(TURNS, task(arms=arms[:1]))
    assert result.samples_s.keys() == set(arms)
    assert len({len(samples) for samples in result.samples_s.values()}) == 1
    assert result.peak_bytes > alone.peak_bytes + 2 * 12 * MIB
