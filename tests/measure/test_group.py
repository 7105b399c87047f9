"""What becomes of a group: one record for every provider asked for, and for every control that ran along."""

import msgspec
import pytest

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.measure.checking import CheckResult
from normbench.measure.group import Drafts, Group
from normbench.records.measurement import Block, Measurement, StopReason
from normbench.records.record import Role, Status, decode_record, encode_record

GROUP = Group.of([Case.from_id("op/rms_norm/forward/8x64/float32")], Conditions(device="cuda", threads=1), ("aten", "mine"))
MEASURED = Measurement(timer="a clock", blocks=(Block(started_at=0.0, inner=1, samples_s=((1e-3,),)),), stop=StopReason.BLOCKS)


@pytest.fixture
def drafts():
    made = Drafts(GROUP, seed=7)
    made.checks = {name: CheckResult(provider=name, status=Status.OK) for name in GROUP.names}
    made.measurements = dict.fromkeys((*GROUP.names, "copy"), MEASURED)
    return made


def test_keys_of_a_group_are_those_of_its_records(drafts):
    asked = {record.key for record in drafts.records() if record.role is Role.PROVIDER}
    assert asked == GROUP.record_keys()


def test_controls_that_ran_along_are_records_of_their_own(drafts):
    assert [record.provider for record in drafts.records() if record.role is Role.CONTROL] == ["copy"]


def test_records_of_one_group_share_an_id_that_no_other_group_has(drafts):
    (shared,) = {record.group for record in drafts.records()}
    assert shared != Drafts(GROUP, seed=7)._id


NETWORKS = [ModelCase.make("gpt2", "tiny", norm, "forward", (2, 64)) for norm in ("layer_norm", "rms_norm")]


def test_arms_of_two_norms_are_told_apart_and_each_is_a_record_of_its_own_case():
    group = Group.of(NETWORKS, Conditions(device="cpu", threads=2), ("aten", "eager"))
    assert group.names == ("layer_norm:aten", "layer_norm:eager", "rms_norm:aten", "rms_norm:eager")
    made = Drafts(group, seed=7)
    made.checks = {name: CheckResult(provider=name, status=Status.OK) for name in group.names}
    made.measurements = dict.fromkeys((*group.names, "no_norm"), MEASURED)
    records = made.records()
    assert [(record.case, record.provider, record.role) for record in records] == [
        *((case, provider, Role.PROVIDER) for case in NETWORKS for provider in ("aten", "eager")),
        (NETWORKS[0], "no_norm", Role.CONTROL),
    ]
    assert group.record_keys() == {record.key for record in records[:-1]}
    assert all(decode_record(encode_record(record), origin="") == record for record in records)


def test_the_id_of_a_group_is_that_of_its_company():
    assert GROUP.id == "op/rms_norm/forward/8x64/float32@cuda/1t/warm/reused"
    group = Group.of(NETWORKS, Conditions(device="cpu", threads=2), ("aten",))
    assert group.id == "model/gpt2-tiny/norm/forward/2x64/float32@cpu/2t/warm/reused"
    assert msgspec.structs.replace(group, arms=group.arms[1:]).id == group.id


def test_settling_keeps_what_the_check_found(drafts):
    drafts.checks["mine"] = CheckResult(provider="mine", status=Status.OK, first_call_s=1.5)
    drafts.settle(["mine"], Status.ERROR, "it failed when called often")
    record = next(record for record in drafts.records() if record.provider == "mine")
    assert (record.status, record.reason, record.first_call_s) == (Status.ERROR, "it failed when called often", 1.5)


def test_a_throttled_row_is_marked_and_keeps_its_samples(drafts):
    # B57: dropping throttled samples leaves empty rows on a card that is warm.
    drafts.device_states = [{"throttle_reason": None}, {"throttle_reason": "hw_thermal_slowdown"}]
    for record in drafts.records():
        assert record.status is Status.THROTTLED
        assert "hw_thermal_slowdown" in record.reason
        assert record.measurement is MEASURED
