"""A record and its line are the same thing, and a line is strict JSON."""

from __future__ import annotations

import json
from math import inf, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.definition import Definition
from normbench.cases.metric import tokens_metric
from normbench.errors import NormbenchError
from normbench.records.measurement import Block, Measurement, Memory, Ranks, StopReason, Sustained
from normbench.records.record import SCHEMA_VERSION, Accuracy, Departure, Record, Role, Status, decode_record, encode_record

CASE = Case.make("rms_norm", "forward_backward", (4, 8), "bfloat16")
CUDA = Conditions(device="cuda:0", threads=8)


def measurement(*samples: float, **changes) -> Measurement:
    return Measurement(
        timer="cuda_event",
        blocks=(Block(started_at=1.5e9, inner=3, samples_s=(samples or (1e-3, 2e-3),), **changes),),
        stop=StopReason.NARROW,
    )


def record(**changes) -> Record:
    fields = {
        "case_id": CASE.id,
        "case": CASE,
        "conditions": CUDA,
        "provider": "aten",
        "status": Status.OK,
        "group": "g",
        "started_at": "2026-01-01T00:00:00+00:00",
        "seed": 7,
        "measurement": measurement(),
    }
    return Record(**(fields | changes))


FULL = record(
    role=Role.CONTROL,
    status=Status.THROTTLED,
    reason="the device slowed itself down: power cap",
    first_call_s=0.25,
    accuracy=(
        Accuracy(tensor="y", dtype="bfloat16", error=0.5, tolerance=1.0, max_abs=0.01, ulps=0.5, nonfinite=0, passed=True),
        Accuracy(
            tensor="dx",
            dtype="bfloat16",
            error=None,
            tolerance=1.0,
            max_abs=None,
            ulps=None,
            nonfinite=32,
            passed=False,
            fault="is missing",
        ),
    ),
    departure=Departure(
        definition=Definition.EPS_OUTSIDE_ROOT,
        accuracy=(Accuracy(tensor="y", dtype="bfloat16", error=9.0, tolerance=1.0, max_abs=0.1, ulps=7.0, nonfinite=0, passed=False),),
    ),
    memory=Memory(peak_bytes=64, reason="saved_bytes: not seen"),
    measurement=measurement(1e-3, 2e-3, host_s=((1e-4, 1e-4),), page_faults_per_call=0.0),
    metric=tokens_metric(128),
    sustained=Sustained(
        duration_s=2.0, calls=9, energy_j=30.0, energy_source="rapl", at_s=(1.0,), series={"calls": (4.0,)}, throttled="power cap"
    ),
    ranks=Ranks(each=(measurement(1e-3, 2e-3), measurement(1e-3, 1e-3)), alone=measurement(9e-4, 9e-4), cores=2),
    settings={"donated_buffer": False},
    device_state={"clock_hz": None, "reasons": {"clock_hz": "no NVML"}},
    machine="0123456789ab",
    node="10.0.0.3",
)
"""Every field differs from its default."""


def test_record_comes_back_from_its_line():
    for one in (record(), FULL):
        line = encode_record(one)
        assert b"\n" not in line
        assert decode_record(line, origin="line 1") == one


def test_full_record_is_full():
    plain = Record(
        case_id="", case=CASE, conditions=CUDA, provider="", status=Status.OK, group="", started_at="", seed=0, schema=SCHEMA_VERSION
    )
    same = [name for name in Record.__struct_fields__ if getattr(FULL, name) == getattr(plain, name)]
    assert same == ["schema", "case", "conditions"]


@given(st.lists(st.floats(5e-324, 1.7e308, allow_nan=False), min_size=1, max_size=20))
def test_samples_come_back_to_the_last_bit(samples):
    one = record(measurement=measurement(*samples))
    again = decode_record(encode_record(one), origin="")
    assert again.measurement.blocks[0].samples_s == (tuple(samples),)


def test_line_is_strict_json_that_any_reader_understands():
    def refuse(token):
        raise AssertionError(token)

    parsed = json.loads(encode_record(FULL), parse_constant=refuse)
    assert parsed["schema"] == SCHEMA_VERSION
    assert parsed["case"]["pass"] == "forward_backward"
    assert parsed["accuracy"][1]["max_abs"] is None


# A number that was not measured is null with a reason. NaN is neither; msgspec would write it as null without a word.
@pytest.mark.parametrize("value", [nan, inf])
@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("measurement.blocks[0].samples_s[0][1]", lambda value: {"measurement": measurement(1e-3, value)}),
        ("measurement.blocks[0].host_s[0][0]", lambda value: {"measurement": measurement(1.0, 1.0, host_s=((value, 1.0),))}),
        ("measurement.blocks[0].page_faults_per_call", lambda value: {"measurement": measurement(page_faults_per_call=value)}),
        ("first_call_s", lambda value: {"first_call_s": value}),
        ("accuracy[0].error", lambda value: {"accuracy": (msgspec.structs.replace(FULL.accuracy[0], error=value),)}),
        ("settings.share", lambda value: {"settings": {"share": value}}),
        ("device_state.clocks[1].hz", lambda value: {"device_state": {"clocks": [{}, {"hz": value}]}}),
    ],
)
def test_number_that_is_none_is_refused_by_name(value, place, change):
    with pytest.raises(NormbenchError) as caught:
        encode_record(record(**change(value)))
    assert f"record.{place}:" in str(caught.value)
    assert record().key in str(caught.value)


# No call takes no time: a ratio to it would be infinite, its logarithm is none.
@pytest.mark.parametrize("sample", [0.0, -1e-9, -inf])
def test_sample_that_is_not_above_zero_is_refused(sample):
    with pytest.raises(NormbenchError, match="not above 0 s"):
        encode_record(record(measurement=measurement(1e-3, sample)))


def test_what_json_has_no_word_for_is_refused():
    with pytest.raises(NormbenchError, match=r"cannot be stored.*unsupported"):
        encode_record(record(settings={"dtype": object()}))


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK], ids=str)
@pytest.mark.parametrize("reason", [None, ""])
def test_every_status_but_ok_needs_a_reason(status, reason):
    with pytest.raises(NormbenchError, match=f"'{status.value}' without a reason"):
        encode_record(record(status=status, reason=reason))
    one = record(status=status, reason="because")
    assert decode_record(encode_record(one), origin="") == one


@pytest.mark.parametrize("status", [Status.OK, Status.THROTTLED], ids=str)
@pytest.mark.parametrize(
    "missing",
    [
        None,
        Measurement(timer="", blocks=(), stop=StopReason.BLOCKS),
        Measurement(timer="", blocks=(Block(started_at=0.0, inner=1, samples_s=()),), stop=StopReason.BLOCKS),
        Measurement(timer="", blocks=(Block(started_at=0.0, inner=1, samples_s=((1.0,), ())),), stop=StopReason.BLOCKS),
    ],
    ids=["nothing", "no block", "no repetition", "no turn"],
)
def test_measured_record_needs_samples(status, missing):
    assert status.is_measured
    with pytest.raises(NormbenchError, match="without samples"):
        encode_record(record(status=status, reason="because", measurement=missing))


def test_only_ok_and_throttled_are_measured():
    assert [status for status in Status if status.is_measured] == [Status.OK, Status.THROTTLED]


def edited(**changes) -> bytes:
    return json.dumps(json.loads(encode_record(record())) | changes).encode()


@pytest.mark.parametrize(
    "line",
    [
        edited(schema=SCHEMA_VERSION + 1),
        # A newer version may have changed or dropped what this one needs, and need not put the schema first.
        b'{"schema": 999}',
        b'{"what":"new","schema":999}',
    ],
)
def test_newer_schema_is_refused_with_advice(line):
    with pytest.raises(NormbenchError, match=r"^run/records.jsonl:3: schema \d+ is newer than 1, .*update normbench"):
        decode_record(line, origin="run/records.jsonl:3")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b"null",
        b'{"schema":"one"}',
        b'{"schema":1}',
        # Half a line: the process was killed while it wrote.
        encode_record(record())[:-20],
        # What other tools write for numbers they do not have.
        encode_record(record()).replace(b"0.001", b"NaN"),
        encode_record(record()).replace(b"0.001", b"Infinity"),
        encode_record(record()).replace(b"0.001", b"1e999"),
        encode_record(record()).replace(b"0.001", b"null"),
        edited(status="fine"),
        edited(case={"norm": "rms_norm"}),
        b'{"schema":1,"provider":"\xff"}',
    ],
)
def test_foreign_line_is_refused_with_its_origin(line):
    with pytest.raises(NormbenchError, match=r"^run/records.jsonl:3: not a normbench record \("):
        decode_record(line, origin="run/records.jsonl:3")


# Lines written by hand or by another program are held to the same rules.
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"status": "wrong"}, "without a reason"),
        ({"measurement": None}, "without samples"),
        (
            {"measurement": {"timer": "", "stop": "narrow", "blocks": [{"started_at": 0, "inner": 1, "samples_s": [[0.0]]}]}},
            "not above 0 s",
        ),
    ],
)
def test_line_that_would_not_have_been_written_is_refused(changes, fault):
    with pytest.raises(NormbenchError, match=f"^here: .*{fault}"):
        decode_record(edited(**changes), origin="here")


def test_unknown_field_of_the_same_schema_is_ignored():
    # A field may be added without a new schema; older readers do not need it.
    assert decode_record(edited(added_later=1), origin="") == record()


def test_key_is_case_conditions_and_provider():
    assert record().key == "op/rms_norm/forward_backward/4x8/bfloat16@cuda:0/8t/warm/reused#aten"
    assert record(seed=8, group="other", status=Status.ERROR).key == record().key
    assert record(provider="eager").key != record().key
    assert record(conditions=Conditions(device="cpu", threads=8)).key != record().key
