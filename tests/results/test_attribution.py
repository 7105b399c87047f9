"""What a network saves beside what its norms do alone: every figure from made-up times whose savings are known."""

import pytest
import synthetic
import throughput_runs

from normbench.records.record import NORM_CALLS, Status
from normbench.results.attribution import attribute, norms_of_networks
from normbench.results.derived import derive_results

LAYER, RMS = "op/layer_norm/forward/2x64x256/float32", "op/rms_norm/forward/2x64x256/float32"
SMALL = "op/layer_norm/forward/2x64x64/float32"
CALLS = {"layer_norm": {LAYER: 5}, "rms_norm": {RMS: 5}}
ALONE = {(LAYER, "aten"): 40e-6, (RMS, "aten"): 24e-6, (LAYER, "eager"): 80e-6, (RMS, "eager"): 60e-6}
# 5 x 40 us of 1 ms are a share of 20 %; RMSNorm takes 5 x 16 us less alone, which is 8 %.
TIMES = {("layer_norm", "aten"): 1e-3, ("rms_norm", "aten"): 0.92e-3}


def found(**changes):
    asked = {"times": TIMES, "without": 0.78e-3, "calls": CALLS, "alone": ALONE} | changes
    return attribute(derive_results(synthetic.network(**asked)))


def about(value):
    # Two blocks of the op tier and those of a pass drift apart by 3 %.
    return pytest.approx(value, abs=0.012)


def test_every_figure_of_a_change_of_the_norm():
    (one,) = found()
    assert one.is_of_norm
    assert (one.before.provider, one.after.case.norm.value) == ("aten", "rms_norm")
    assert one.calls == 5
    assert one.share.value == about(0.20)
    assert one.speedup.value == pytest.approx(40 / 24, rel=0.06)
    assert one.predicted.value == about(0.08)
    assert one.bound.value == pytest.approx(0.22, abs=0.003)
    assert one.observed.value == pytest.approx(0.08, abs=0.003)
    assert one.residual.value == about(0.0)
    assert one.missing is None


def test_predicted_is_amdahl():
    (one,) = found()
    assert one.predicted.value == pytest.approx(one.share.value * (1 - 1 / one.speedup.value))


def test_a_residual_is_told_per_norm_call():
    # 10 % less is saved than predicted: 100 us over five calls.
    (one,) = found(times=TIMES | {("rms_norm", "aten"): 1.02e-3})
    assert one.residual.value == about(-0.10)
    assert one.residual.is_resolved
    assert one.residual_per_call_s == pytest.approx(-20e-6, rel=0.2)


def test_a_difference_of_well_under_a_percent_is_resolved_when_turns_cancel_what_disturbs_both():
    # Processes differ by 3 %, arms of one turn by 0.1 %.
    (one,) = found(times=TIMES | {("rms_norm", "aten"): 0.997e-3})
    assert one.observed.value == pytest.approx(0.003, abs=0.0015)
    assert one.observed.is_resolved


def test_a_difference_that_noise_hides_is_unresolved():
    (one,) = found(times=TIMES | {("rms_norm", "aten"): 0.999e-3}, noise=0.05)
    assert not one.observed.is_resolved


def test_the_residual_is_no_more_certain_than_what_it_is_made_of():
    (one,) = found(noise=0.02)
    assert one.residual.half > one.predicted.half
    assert one.residual.half > one.observed.half


def test_providers_are_compared_with_the_baseline_for_each_norm():
    times = TIMES | {("layer_norm", "eager"): 1.2e-3, ("rms_norm", "eager"): 1.1e-3}
    changes = {(one.before.case.arm(one.before.provider), one.after.case.arm(one.after.provider)): one for one in found(times=times)}
    assert set(changes) == {
        ("layer_norm:aten", "rms_norm:aten"),
        ("layer_norm:eager", "rms_norm:eager"),
        ("layer_norm:aten", "layer_norm:eager"),
        ("rms_norm:aten", "rms_norm:eager"),
    }
    slower = changes["layer_norm:aten", "layer_norm:eager"]
    assert not slower.is_of_norm
    # The two took turns alone, too: their ratio is told to a tenth of a percent.
    assert slower.speedup.value == pytest.approx(0.5, rel=0.005)
    # 5 x 40 us more.
    assert slower.predicted.value == about(-0.20)
    assert slower.observed.value == pytest.approx(-0.20, abs=0.003)


def test_norms_of_several_shapes_add_up():
    calls = {"layer_norm": {LAYER: 5, SMALL: 2}, "rms_norm": {RMS: 5}}
    (one,) = found(calls=calls, alone=ALONE | {(SMALL, "aten"): 10e-6})
    assert one.calls == 7
    assert one.share.value == about(0.22)


def test_a_norm_that_was_not_timed_alone_leaves_observation_and_bound():
    (one,) = found(alone={(LAYER, "aten"): 40e-6})
    assert (one.share, one.predicted, one.residual, one.residual_per_call_s) == (None, None, None, None)
    assert "not all timed alone" in one.missing
    assert one.observed is not None
    assert one.bound is not None


def test_without_the_control_there_is_no_bound():
    (one,) = found(without=None)
    assert one.bound is None
    assert one.residual is not None


def test_arms_that_were_not_timed_or_not_together_are_not_compared():
    records = synthetic.network(times=TIMES, calls=CALLS, alone=ALONE)
    wrong = synthetic.record(records[1].case, "aten", status=Status.WRONG, reason="off", group=records[0].group)
    assert attribute(derive_results([records[0], wrong, *records[2:]])) == []
    apart = synthetic.record(records[1].case, "aten", group="another", settings=records[1].settings)
    assert attribute(derive_results([records[0], apart, *records[2:]])) == []


def test_training_and_serving_change_nothing_of_what_networks_save():
    # Their records name norm calls too, but nobody measured those alone for their sake.
    network = synthetic.network(times=TIMES, calls=CALLS, alone=ALONE)
    served = throughput_runs.group("train", settings={NORM_CALLS: {SMALL: 5}})
    assert attribute(derive_results([*served, *network])) == attribute(derive_results(network))
    assert attribute(derive_results(served)) == []
    assert norms_of_networks(derive_results(served)) == set()


def test_the_op_tiers_cases_of_networks_are_known():
    assert norms_of_networks(derive_results(synthetic.network(times=TIMES, calls=CALLS, alone=ALONE))) == {LAYER, RMS}
    assert norms_of_networks(derive_results(synthetic.full_run().records)) == set()
