"""Figures of a sweep are derived from its raw samples."""

from __future__ import annotations

import msgspec
import pytest

from normbench.records.record import Status
from normbench.sweep.entry import Check, Entry, Point, SideBySide, Verdict, is_sound

FITS = Point(arm="a", batch=4, verdict=Verdict.FITS, tokens=256, samples_s=((0.1, 0.2, 0.3), (0.2, 0.2), (0.2,)), peak_bytes=1)
LACKS = Point(arm="a", batch=8, verdict=Verdict.OUT_OF_MEMORY, tokens=512, reason="no memory")
SIDE = SideBySide(company="c", batch=4, tokens=100, samples_s={"x": ((0.1,), (0.2,)), "y": ((0.2,), (0.4,))})


def test_rate_is_of_each_process_median_with_an_interval_over_processes():
    rate = FITS.tokens_per_s
    assert rate.estimate == pytest.approx(1280)
    assert rate.unit.kind == "process"
    assert rate.unit.count == 3


def test_ratio_is_taken_in_each_process():
    # The machine was half as fast in the second process, for both.
    found = SIDE.speed_up("x", "y")
    assert (found.estimate, found.low, found.high) == pytest.approx((2, 2, 2))
    assert SIDE.tokens_per_s("y").estimate == pytest.approx(100 / (0.2 * 0.4) ** 0.5)


@pytest.mark.parametrize("entry", [FITS, LACKS, SIDE, Check(arm="a", status=Status.OK)])
def test_every_entry_is_one_line_and_read_as_what_it_was(entry):
    line = msgspec.json.encode(entry)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=Entry) == entry


def test_lack_of_memory_is_sound_and_a_wrong_arm_or_another_failure_is_not():
    assert is_sound([FITS, LACKS, SIDE, Check(arm="a", status=Status.OK), Check(arm="b", status=Status.SKIPPED, reason="no GPU")])
    assert not is_sound([Check(arm="a", status=Status.WRONG, reason="off")])
    assert not is_sound([msgspec.structs.replace(LACKS, verdict=Verdict.FAILED)])
