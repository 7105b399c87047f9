"""Figures of claims from training and serving: gains in tokens per second, their bound, and the memory of a call."""

from __future__ import annotations

import msgspec
import pytest

from normbench.cases.case import Norm
from normbench.cases.throughput_case import ThroughputCase
from normbench.claims.from_throughput import from_throughput
from normbench.claims.verdict import Verdict, judge
from normbench.records.measurement import Memory
from normbench.records.record import NO_NORM, Role

from .handmade import claim
from .test_from_runs import Runs, record

TRAINING = claim(
    tier="throughput",
    published={"gained_percent": 18},
    accept={"gained_percent": (13.0, 23.0)},
    opposite={},
    options={"network": "gpt2", "modes": ["train"], "provider": "aten"},
)


def records(mode, batch, layer_s, rms_s, without_s, peaks=(4000, 3400)):
    group = f"{mode} {batch}"
    found = []
    for norm, time_s, peak in ((Norm.LAYER_NORM, layer_s, peaks[0]), (Norm.RMS_NORM, rms_s, peaks[1])):
        case = ThroughputCase.make("gpt2", "tiny", norm, mode, (batch, 64))
        one = record(case, "aten", time_s, group=group)
        found.append(msgspec.structs.replace(one, metric=case.metric, memory=Memory(peak_bytes=peak)))
    control = record(case, NO_NORM, without_s, group=group, role=Role.CONTROL)
    return [*found, msgspec.structs.replace(control, metric=case.metric)]


def serving():
    times = {(mode, batch): (10e-3, 9.5e-3, 9e-3) for mode in ("prefill", "decode") for batch in (1, 4, 16, 64)}
    return [one for (mode, batch), three in times.items() for one in records(mode, batch, *three)]


def test_less_time_is_a_gain_and_the_two_ways_to_say_it_are_kept_apart():
    found = from_throughput(TRAINING, Runs(records("train", 2, 11.8e-3, 10e-3, 9e-3)))
    assert found.values["gained_percent"].estimate == pytest.approx(18, abs=0.1)
    assert found.values["saved_percent"].estimate == pytest.approx(100 * (1 - 10 / 11.8), abs=0.1)
    assert found.values["memory_saved_percent"].estimate == pytest.approx(15)
    assert judge(TRAINING, found).verdict is Verdict.REPRODUCED


def test_norms_that_cost_nothing_bound_the_gain():
    found = from_throughput(TRAINING, Runs(records("train", 2, 10e-3, 9.9e-3, 9.8e-3)))
    (bound,) = (one for one in found.bounds if one.name == "gained_percent")
    assert 100 * (10 / 9.8 - 1) <= bound.most < 13
    assert judge(TRAINING, found).verdict is Verdict.BOUNDED_OUT


def test_rms_norm_that_is_slower_is_the_opposite():
    asked = msgspec.structs.replace(TRAINING, opposite={"gained_percent": (float("-inf"), 0.0)})
    found = from_throughput(asked, Runs(records("train", 2, 10e-3, 11e-3, 8e-3)))
    assert judge(asked, found).verdict is Verdict.OPPOSITE


def test_serving_is_the_span_over_both_phases_and_all_batches():
    asked = msgspec.structs.replace(TRAINING, options=TRAINING.options | {"modes": ["prefill", "decode"]})
    found = from_throughput(asked, Runs(serving()))
    assert "decode of batch 64" in found.values["gained_percent"].note
    one_differs = serving()
    one_differs[:3] = records("prefill", 1, 10e-3, 12e-3, 8e-3)
    gained = from_throughput(asked, Runs(one_differs)).values["gained_percent"]
    assert gained.low < 100 * (10 / 12 - 1) < 0 < 5 < gained.high


def test_both_phases_must_agree_and_not_only_what_lies_between_them():
    asked = msgspec.structs.replace(
        TRAINING, accept={"gained_percent": (10.0, 20.0)}, options=TRAINING.options | {"modes": ["prefill", "decode"]}
    )
    times = {"prefill": (10.2e-3, 10e-3, 5e-3), "decode": (12.8e-3, 10e-3, 5e-3)}
    found = from_throughput(asked, Runs([one for mode in times for batch in (1, 4, 16, 64) for one in records(mode, batch, *times[mode])]))
    value = found.values["gained_percent"]
    assert value.low < 10 < 20 < value.high
    assert judge(asked, found).verdict is Verdict.NOT_REPRODUCED


def test_norms_of_an_interrupted_run_do_not_hide_those_that_took_turns_in_another():
    whole = records("train", 2, 11.8e-3, 10e-3, 9e-3)
    cut = [msgspec.structs.replace(one, group="cut") for one in whole[:1]]
    for runs in ((cut, whole), (whole, cut)):
        assert from_throughput(TRAINING, Runs(*runs)).values["gained_percent"].estimate == pytest.approx(18, abs=0.1)


def test_norms_that_did_not_take_turns_have_no_ratio():
    layer, rms, control = records("train", 2, 10e-3, 9e-3, 8e-3)
    apart = [layer, msgspec.structs.replace(rms, group="another"), control]
    assert from_throughput(TRAINING, Runs(apart)).startswith("was not timed here with both norms in turns")
