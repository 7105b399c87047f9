"""A run as a table: one row per record, null where nothing was measured."""

from __future__ import annotations

import pytest
import synthetic

from normbench.case import Case
from normbench.frame import load
from normbench.record import Status
from normbench.store import RunWriter

CASE = Case.make("rms_norm", "forward", (4, 128, 512), "float32")


def test_one_row_per_record():
    run = synthetic.full_run()
    frame = load(run)
    assert list(frame["key"]) == [record.key for record in run.records]
    row = frame.set_index("key").loc[f"{CASE.id}@cpu/2t/warm/reused#compile"]
    assert (row["tier"], row["norm"], row["pass"], row["shape"]) == ("op", "rms_norm", "forward", "4x128x512")
    assert (row["rows"], row["cols"], row["numel"], row["dtype"]) == (512, 512, 4 * 128 * 512, "float32")
    assert row["time_low_s"] < row["time_s"] < row["time_high_s"]
    assert row["speedup_low"] < row["speedup_vs_aten"] < row["speedup_high"]
    assert (row["samples"], row["processes"]) == (5 * 2 * 9, 5)
    assert row["gbps"] == pytest.approx(row["bytes_moved"] / row["time_s"] / 1e9)
    assert row["copy_percent"] == pytest.approx(84, abs=3)
    assert row["worst_error_of_tolerance"] == 0.25
    assert row["role"] == "provider"


def test_unmeasured_is_null_never_zero():
    frame = load(synthetic.run([synthetic.record(CASE, "aten", status=Status.OOM, reason="no memory left")]))
    row = frame.iloc[0]
    measured = ["time_s", "time_low_s", "samples", "processes", "first_call_s", "speedup_vs_aten", "gbps", "copy_percent", "peak_bytes"]
    assert row[measured].isna().all()
    assert (row["status"], row["reason"], row["speedup_missing"]) == ("oom", "no memory left", "oom")


def test_empty_run_has_the_same_columns_and_types():
    empty, full = load(synthetic.run([])), load(synthetic.full_run())
    assert len(empty) == 0
    assert (empty.dtypes == full.dtypes).all()


def test_run_is_found_by_path(tmp_path):
    with RunWriter.create("seed", command=[], seed=0, planned=1, settings={}, machine={}, versions={}, root=tmp_path) as writer:
        writer.append(synthetic.record(CASE))
    assert len(load(writer.path)) == len(load(str(writer.path))) == 1
