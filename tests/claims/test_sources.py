"""What is put side by side stems from one machine, one software and one plan; of several such sources those with times are taken."""

from __future__ import annotations

import msgspec
import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.claims.sources import Wanted, best_found, find, sources_of
from normbench.records.record import Status
from normbench.storage.stored_run import Machine

LAYER, RMS = (Case.make(norm, "forward", (8, 64), "float32") for norm in ("layer_norm", "rms_norm"))
BOTH = Wanted(turns=((LAYER,), (RMS,)), providers=("aten",), conditions=synthetic.CPU)
ELSEWHERE = {
    "another machine": {"machine": synthetic.MACHINE | {"cpu_model": "Another CPU 1"}},
    "another version": {"versions": synthetic.VERSIONS | {"torch": "2.1.0"}},
    "another plan": {"settings": {"plan": {"min_sample_s": 0.5}}},
}


def sources(*runs):
    return [source for run in runs for source in sources_of(run)]


def times(found):
    return [one.time is not None for group in found.groups for one in group if one.record.provider == "aten"]


def interrupted(*cases):
    return [synthetic.record(case, "aten", status=Status.INTERRUPTED, reason="the run was stopped") for case in cases]


def test_cases_of_two_runs_of_one_machine_are_found():
    found = best_found(sources(*(synthetic.run(synthetic.group(case)) for case in (LAYER, RMS))), BOTH)
    assert times(found) == [True, True]
    assert found.unsettled == ()


@pytest.mark.parametrize("difference", ELSEWHERE)
def test_cases_that_no_one_machine_software_and_plan_have_are_not_found_together(difference):
    one, other = synthetic.run(synthetic.group(LAYER)), synthetic.run(synthetic.group(RMS), **ELSEWHERE[difference])
    assert best_found(sources(one, other), BOTH).unsettled == ((RMS,),)


def test_machines_of_one_run_are_told_apart():
    there = [msgspec.structs.replace(one, machine="aaaaaaaaaaaa", group="there") for one in synthetic.group(RMS)]
    machines = {"aaaaaaaaaaaa": Machine(machine=ELSEWHERE["another machine"]["machine"], versions=synthetic.VERSIONS)}
    merged = synthetic.run([*synthetic.group(LAYER), *there], machines=machines)
    assert best_found(sources(merged), BOTH).unsettled == ((RMS,),)
    same = synthetic.run(synthetic.group(LAYER), **ELSEWHERE["another machine"])
    assert best_found(sources(merged, same), BOTH).unsettled == ()


def test_version_that_one_run_does_not_know_keeps_no_two_others_together():
    plain = synthetic.run(synthetic.group(Case.make("rms_norm", "forward", (4, 4), "float32")), versions={"torch": "2.13.0"})
    one, other = (
        synthetic.run(synthetic.group(case), versions={"torch": "2.13.0", "liger": version}) for case, version in ((LAYER, "1"), (RMS, "2"))
    )
    assert best_found(sources(plain, one, other), BOTH).unsettled == ((RMS,),)


def test_order_of_runs_does_not_decide_whether_there_is_a_time():
    cut, whole = synthetic.run(interrupted(LAYER, RMS)), synthetic.run([*synthetic.group(LAYER), *synthetic.group(RMS)])
    for runs in ((cut, whole), (whole, cut)):
        assert times(best_found(sources(*runs), BOTH)) == [True, True]


@pytest.mark.parametrize("status", [status for status in Status if not status.is_measured])
def test_lawful_refusal_settles_a_case_and_a_failure_does_not(status):
    refused = synthetic.run([synthetic.record(case, "aten", status=status, reason="why") for case in (LAYER, RMS)])
    is_lawful = status in (Status.SKIPPED, Status.UNSUPPORTED, Status.OOM)
    assert best_found(sources(refused), BOTH).unsettled == (() if is_lawful else ((LAYER,), (RMS,)))


def test_time_of_a_device_that_throttled_is_the_second_choice():
    hot = synthetic.record(RMS, "aten", status=Status.THROTTLED, reason="hot", group="hot")
    cool = synthetic.record(RMS, "aten", group="cool")
    wanted = msgspec.structs.replace(BOTH, turns=((RMS,),))
    for runs in ((hot, cool), (cool, hot)):
        ((one,),) = best_found(sources(*(synthetic.run([one]) for one in runs)), wanted).groups
        assert one.record.group == "cool"


def test_cases_that_take_turns_are_of_one_group():
    apart = synthetic.run([synthetic.record(LAYER, "aten", group="one"), synthetic.record(RMS, "aten", group="two")])
    assert best_found(sources(apart), msgspec.structs.replace(BOTH, turns=((LAYER, RMS),))).unsettled == ((LAYER, RMS),)


def test_nothing_is_found_under_other_conditions_or_without_runs():
    elsewhere = msgspec.structs.replace(BOTH, conditions=Conditions(device="cpu", threads=7))
    for known in (sources(synthetic.run(synthetic.group(LAYER))), []):
        assert best_found(known, elsewhere).groups == ((), ())
    assert find((), LAYER, "aten") is None
