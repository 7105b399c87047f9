"""What becomes of a group: one record for every provider asked for, and for every control that ran along."""

import pytest

from normbench.case import Case, Conditions
from normbench.measure.checking import CheckResult
from normbench.measure.group import Drafts, Group
from normbench.record import Block, Measurement, Role, Status, StopReason

GROUP = Group(
    case=Case.from_id("op/rms_norm/forward/8x64/float32"),
    conditions=Conditions(device="cuda", threads=1),
    providers=("aten", "mine"),
)
MEASURED = Measurement(timer="a clock", blocks=(Block(started_at=0.0, inner=1, samples_s=((1e-3,),)),), stop=StopReason.BLOCKS)


@pytest.fixture
def drafts():
    made = Drafts(GROUP, seed=7)
    made.checks = {name: CheckResult(provider=name, status=Status.OK) for name in GROUP.providers}
    made.measurements = dict.fromkeys((*GROUP.providers, "copy"), MEASURED)
    return made


def test_keys_of_a_group_are_those_of_its_records(drafts):
    asked = {record.key for record in drafts.records() if record.role is Role.PROVIDER}
    assert asked == GROUP.record_keys()


def test_controls_that_ran_along_are_records_of_their_own(drafts):
    assert [record.provider for record in drafts.records() if record.role is Role.CONTROL] == ["copy"]


def test_records_of_one_group_share_an_id_that_no_other_group_has(drafts):
    (shared,) = {record.group for record in drafts.records()}
    assert shared != Drafts(GROUP, seed=7)._id


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
