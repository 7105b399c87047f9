"""A run as a table: one row per record, null where nothing was measured."""

from __future__ import annotations

import pytest
import synthetic
import throughput_runs

from normbench.cases.case import Case
from normbench.records.record import Status
from normbench.report.frame import load
from normbench.storage.store import RunWriter

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


def test_a_rate_has_its_columns_and_every_other_tier_has_none_in_them():
    one = throughput_runs.group("train", case={"accumulation": 4, "autocast": "bfloat16"})
    frame = load(synthetic.run([*one, *throughput_runs.group("decode"), synthetic.record(CASE)]))
    row = frame.iloc[0]
    assert (row["tier"], row["network"], row["preset"], row["mode"]) == ("throughput", "gpt2", "tiny", "train")
    assert (row["batch"], row["tokens"], row["accumulation"], row["autocast"], row["checkpointing"]) == (2, 512, 4, "bfloat16", False)
    assert (row["metric"], row["better"]) == ("tokens_per_s", "more")
    assert row["tokens_per_s"] == pytest.approx(512 / row["time_s"])
    assert row["tokens_per_s_low"] == pytest.approx(512 / row["time_high_s"])
    assert row["tokens_per_s_high"] == pytest.approx(512 / row["time_low_s"])
    assert row["p50_s"] <= row["p90_s"] <= row["p99_s"]
    # 100 steps in a second, for 20 J.
    assert row["sustained_tokens_per_s"] == 51200
    assert row["joules_per_token"] == pytest.approx(1 / row["tokens_per_joule"]) == pytest.approx(20 / 51200)
    assert row["tokens_per_s_per_gib"] == pytest.approx(2 * row["tokens_per_s"])
    decoded = frame.iloc[len(one)]
    assert (decoded["tokens"], decoded["sequence_tokens"]) == (2, 64), "a decode step writes one token of each sequence"
    faster = frame[(frame["mode"] == "decode") & (frame["provider"] == "compile")]
    assert (faster["speedup_vs_aten"] > 1.1).all()
    op = frame.iloc[-1]
    rates = [name for name in frame.columns if "tokens" in name or "joule" in name or name in ("p50_s", "mode", "batch", "checkpointing")]
    assert len(rates) >= 10
    assert op[rates].isna().all()
    assert (op["metric"], op["better"]) == ("time", "less")


def test_a_network_without_norms_is_not_among_those_with_layer_norm():
    frame = load(synthetic.run([*throughput_runs.group("decode"), *synthetic.full_run().records]))
    control = frame[frame["provider"] == "no_norm"]
    assert len(control) > 0
    assert control["norm"].isna().all()
    assert frame.groupby("norm")["provider"].agg(lambda names: "no_norm" in set(names)).eq(False).all()
    copies = frame[frame["provider"] == "copy"]
    assert set(copies["norm"]) <= {"layer_norm", "rms_norm"}, "a copy moves the bytes of the norm beside it"


def test_empty_run_has_the_same_columns_and_types():
    empty, full = load(synthetic.run([])), load(synthetic.full_run())
    assert len(empty) == 0
    assert (empty.dtypes == full.dtypes).all()


def test_run_is_found_by_path(tmp_path):
    with RunWriter.create("seed", command=[], seed=0, planned=1, settings={}, machine={}, versions={}, root=tmp_path) as writer:
        writer.append(synthetic.record(CASE))
    assert len(load(writer.path)) == len(load(str(writer.path))) == 1
