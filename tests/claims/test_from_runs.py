"""Figures of claims from runs: ratios of independent times, savings of networks, and bounds on both."""

from __future__ import annotations

from math import log

import msgspec
import pytest
import synthetic

from normbench.cases.case import Case, Norm
from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.cases.shape import parsed_shape
from normbench.claims.from_runs import from_model, from_op, from_providers
from normbench.claims.sources import Wanted, best_found, sources_of
from normbench.claims.verdict import Verdict, judge
from normbench.records.measurement import Block, Measurement, StopReason
from normbench.records.record import COPY, NO_NORM, Record, Role, Status

from .handmade import claim

CPU = Conditions(device="cpu", threads=1)


def record(case, provider, time_s, *, group, role=Role.PROVIDER, settings=None, conditions=CPU, spread=0.01):
    """Return a record of three processes that differ by a percent, or as much as is said."""
    blocks = tuple(Block(started_at=0.0, inner=1, samples_s=((time_s * factor,),)) for factor in (1 - spread, 1.0, 1 + spread))
    return Record(
        case_id=case.id,
        case=case,
        conditions=conditions,
        provider=provider,
        role=role,
        status=Status.OK,
        group=group,
        started_at="2026-01-01T00:00:00+00:00",
        seed=0,
        measurement=Measurement(timer="perf_counter_ns", blocks=blocks, stop=StopReason.BLOCKS),
        settings=settings or {},
    )


class Runs:
    """Stand in for a context with finished runs."""

    cores = 1

    def __init__(self, records, *more):
        self.sources = [source for one in (records, *more) for source in sources_of(synthetic.run(one))]

    def results(self, turns, providers, *, device="cpu", threads=1):
        return best_found(
            self.sources, Wanted(turns=tuple(turns), providers=providers, conditions=Conditions(device=device, threads=threads))
        ).groups


def op_records(shape, layer_s, rms_s, copy_s, spread=0.01):
    found = []
    for norm, provider, time_s in ((Norm.LAYER_NORM, "aten", layer_s), (Norm.RMS_NORM, "eager", rms_s)):
        case = Case.make(norm, "forward", shape, "float32")
        found += [
            record(case, provider, time_s, group=case.id, spread=spread),
            record(case, COPY, copy_s, group=case.id, role=Role.CONTROL),
        ]
    return found


ASKED = claim(
    published={"layer_norm_us": 100, "rms_norm_us": 85, "saved_percent": 15},
    accept={"layer_norm_us": (50.0, 200.0), "saved_percent": (10.0, 20.0)},
    options={"shape": "64x1024"},
)


def test_op_claim_has_times_ratio_and_saving_with_intervals():
    found = from_op(ASKED, Runs(op_records((64, 1024), 100e-6, 85e-6, 50e-6)))
    values = found.values
    assert values["layer_norm_us"].estimate == pytest.approx(100, rel=1e-3)
    assert values["ratio"].estimate == pytest.approx(0.85, rel=1e-3)
    assert values["saved_percent"].estimate == pytest.approx(15, abs=0.1)
    assert values["saved_percent"].low < 15 < values["saved_percent"].high
    assert judge(ASKED, found).verdict is Verdict.REPRODUCED


def test_interval_of_a_ratio_is_wider_than_that_of_either_time():
    values = from_op(ASKED, Runs(op_records((64, 1024), 100e-6, 85e-6, 50e-6))).values
    widths = [log(values[name].high / values[name].low) for name in ("layer_norm_us", "rms_norm_us", "ratio")]
    assert widths[2] == pytest.approx((widths[0] ** 2 + widths[1] ** 2) ** 0.5)


def test_hand_written_norm_that_is_slower_is_the_opposite():
    assert judge(ASKED, from_op(ASKED, Runs(op_records((64, 1024), 100e-6, 250e-6, 50e-6)))).verdict is Verdict.OPPOSITE


def test_time_that_needs_more_bandwidth_than_twice_the_copys_is_bounded_out():
    # The copy moves 0.5 MiB in 2 ms: 1 ms is the least that is granted, and up to 200 us were to agree.
    found = from_op(ASKED, Runs(op_records((64, 1024), 2.2e-3, 2.0e-3, 2e-3)))
    assert judge(ASKED, found).verdict is Verdict.BOUNDED_OUT
    assert found.bounds[0].least == pytest.approx(1e3, rel=0.02)


def test_savings_over_several_shapes_are_kept_by_shape():
    records = op_records((64, 1024), 100e-6, 85e-6, 50e-6) + op_records((8, 64), 10e-6, 20e-6, 5e-6)
    asked = claim(options={"shapes": ["64x1024", "8x64"]})
    saved = from_op(asked, Runs(records)).values["saved_percent"]
    assert {shape: round(one.estimate) for shape, one in saved.cases.items()} == {"64x1024": 15, "8x64": -100}
    assert (saved.low, saved.high) == (saved.cases["8x64"].low, saved.cases["64x1024"].high)


def test_saving_that_is_the_same_for_all_shapes_must_be_that_of_each():
    # The shape with the least saving may agree, as unsure as it is; the one above it is sure to be off.
    times = {"4x128": (98e-6, 0.02), "8x256": (96e-6, 0.0001), "16x512": (86e-6, 0.0001), "32x1024": (85e-6, 0.0001)}
    records = [one for text, (rms_s, spread) in times.items() for one in op_records(parsed_shape(text), 100e-6, rms_s, 50e-6, spread)]
    asked = claim(options={"shapes": list(times)})
    found = from_op(asked, Runs(records))
    assert judge(asked, found).verdict is Verdict.NOT_REPRODUCED
    assert "; not 10 to 20: 8x256 4" in judge(asked, found).reason


def test_case_that_was_not_timed_is_said():
    records = op_records((64, 1024), 100e-6, 85e-6, 50e-6)[:2]
    assert from_op(ASKED, Runs(records)).startswith("was not timed here")


def test_times_of_two_machines_have_no_ratio():
    fast, slow = op_records((64, 1024), 100e-6, 85e-6, 50e-6)[:2], op_records((64, 1024), 400e-6, 340e-6, 200e-6)[2:]
    elsewhere = [msgspec.structs.replace(one, node="another") for one in slow]
    assert from_op(ASKED, Runs([*fast, *elsewhere])).startswith("was not timed here")
    assert from_op(ASKED, Runs(fast, slow)).values["ratio"].estimate == pytest.approx(3.4, rel=1e-3)


CUDA = Conditions(device="cuda", threads=1)
ASKED_OF_TWO = claim(
    options={"norm": "rms_norm", "shape": "64x1024", "dtype": "float32", "fast": "triton", "slow": "eager", "figure": "ratio"}
)


def test_two_providers_that_took_turns_have_the_ratio_of_their_turns():
    # Both drift by the same percent from process to process: each time is uncertain, the ratio is not.
    case = Case.make("rms_norm", "forward", (64, 1024), "float32")
    both = [record(case, provider, time_s, group="a", conditions=CUDA) for provider, time_s in (("triton", 1e-3), ("eager", 4e-3))]
    ratio = from_providers(ASKED_OF_TWO, Runs(both)).values["ratio"]
    assert (ratio.low, ratio.estimate, ratio.high) == pytest.approx((0.25, 0.25, 0.25))


def test_two_providers_of_different_runs_have_no_ratio():
    case = Case.make("rms_norm", "forward", (64, 1024), "float32")
    apart = [record(case, provider, 1e-3, group=provider, conditions=CUDA) for provider in ("triton", "eager")]
    assert from_providers(ASKED_OF_TWO, Runs(apart)) == f"was not timed here side by side: {case.id} by triton and eager"


def model_records(network, layer_s, rms_s, without_s):
    found = []
    for norm, time_s in ((Norm.LAYER_NORM, layer_s), (Norm.RMS_NORM, rms_s)):
        case = ModelCase.make(network, "tiny", norm, "forward", (2, 64))
        found.append(record(case, "aten", time_s, group=network))
        control = record(case, NO_NORM, without_s, group=network, role=Role.CONTROL)
    return [*found, control]


def asked_of(*networks):
    return claim(tier="model", options={"networks": list(networks), "pass": "forward", "provider": "aten"})


def test_model_claim_has_the_saving_and_the_bound_of_norms_that_cost_nothing():
    found = from_model(asked_of("gpt2"), Runs(model_records("gpt2", 10e-3, 9.5e-3, 9e-3)))
    assert found.values["saved_percent"].estimate == pytest.approx(5, abs=0.1)
    assert found.values["gained_percent"].estimate == pytest.approx(100 * (10 / 9.5 - 1), abs=0.1)
    assert found.values["layer_norm_overhead_percent"].estimate == pytest.approx(100 * (10 / 9 - 1), abs=0.1)
    assert found.values["over_share_percent"].estimate == pytest.approx(-5, abs=0.2)
    (bound,) = (one for one in found.bounds if one.name == "saved_percent")
    assert 10 <= bound.most < 14


def test_saving_beyond_the_share_of_norms_is_bounded_out_whatever_the_scope():
    asked = asked_of("gpt2")
    found = from_model(asked, Runs(model_records("gpt2", 10e-3, 9.9e-3, 9.8e-3)))
    assert judge(asked, found, unmet=["needs TensorFlow"]).verdict is Verdict.BOUNDED_OUT


def test_several_networks_give_a_span_and_are_named():
    records = model_records("gpt2", 10e-3, 9.5e-3, 9e-3) + model_records("llama", 10e-3, 9e-3, 8e-3)
    value = from_model(asked_of("gpt2", "llama"), Runs(records)).values["saved_percent"]
    assert value.low < 5
    assert value.high > 10
    assert "gpt2 5.0 and llama 10.0" in value.note


def test_network_that_was_not_timed_is_named():
    assert "llama" in from_model(asked_of("gpt2", "llama"), Runs(model_records("gpt2", 10e-3, 9.5e-3, 9e-3)))
    assert "no-such" in from_model(asked_of("no-such"), Runs([]))
