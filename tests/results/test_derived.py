"""Figures are derived only from what may be put side by side."""

from __future__ import annotations

import pytest
import synthetic
import throughput_runs

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.definition import Definition
from normbench.records.record import Departure, Status
from normbench.results.derived import NOT_SIDE_BY_SIDE, derive_results, error_fraction

CASE = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")
BYTES = 2 * CASE.numel * 4


def by_provider(records):
    return {result.record.provider: result for result in derive_results(records)}


def test_speedup_is_baseline_over_provider():
    results = by_provider(synthetic.group(CASE, aten=4e-3, compile=2e-3))
    assert results["compile"].speedup.estimate == pytest.approx(2.0, rel=0.01)
    assert results["compile"].speedup.excludes(1.0)
    assert results["aten"].speedup.estimate == results["aten"].speedup.low == 1.0


def test_bandwidth_is_bytes_over_time_and_its_share_that_of_the_copy():
    results = by_provider(synthetic.group(CASE, aten=4e-3, copy=2e-3))
    aten = results["aten"]
    assert aten.bytes_moved == BYTES + 1024 * 4
    assert aten.gbps == pytest.approx(aten.bytes_moved / aten.time.estimate / 1e9)
    assert aten.copy_gbps == results["copy"].gbps == pytest.approx(BYTES / results["copy"].time.estimate / 1e9)
    assert aten.copy_share == pytest.approx(0.5, rel=0.02)


def test_allocation_share():
    assert by_provider(synthetic.group(CASE, aten=4e-3, allocate=1e-3))["aten"].allocation_share == pytest.approx(0.25, rel=0.02)


def test_controls_have_no_speedup():
    results = by_provider(synthetic.group(CASE))
    assert results["copy"].speedup is None
    assert results["allocate"].gbps is None


@pytest.mark.parametrize(
    "apart",
    [{"group": "another"}, {"conditions": Conditions(device="cpu", threads=1)}, {"measurement": synthetic.measurement(1e-3, processes=4)}],
    ids=["group", "conditions", "processes"],
)
def test_no_ratio_between_what_did_not_take_turns(apart):
    result = by_provider([synthetic.record(CASE, "aten"), synthetic.record(CASE, "compile", **apart)])["compile"]
    assert result.time is not None
    assert result.speedup is None
    assert result.speedup_missing == ("aten was not measured" if "conditions" in apart else NOT_SIDE_BY_SIDE)


def test_a_rate_is_more_where_the_time_is_less_and_so_is_its_speedup():
    results = derive_results(throughput_runs.group("decode"))
    compiled = results[1]
    assert (compiled.record.provider, compiled.record.metric.name) == ("compile", "tokens_per_s")
    assert compiled.rate.estimate == pytest.approx(2 / compiled.time.estimate)
    assert compiled.rate.low < compiled.rate.estimate < compiled.rate.high
    assert compiled.speedup.estimate == pytest.approx(10 / 9, rel=0.01), "of the same norm by aten"
    assert (results[-1].record.provider, results[-1].speedup_missing) == ("no_norm", "control")


def test_a_time_is_no_rate():
    assert by_provider(synthetic.group(CASE))["aten"].rate is None


def test_other_case_in_the_same_group_is_not_compared():
    other = Case.make("layer_norm", "forward", (8, 256, 1024), "float32")
    records = [synthetic.record(other, "aten", group="g"), synthetic.record(CASE, "compile", group="g")]
    assert by_provider(records)["compile"].speedup is None


def test_baseline_that_failed_gives_no_speedup():
    records = [synthetic.record(CASE, "aten", status=Status.OOM, reason="no memory"), synthetic.record(CASE, "compile")]
    assert by_provider(records)["compile"].speedup_missing == "aten was not measured"


@pytest.mark.parametrize("sample", [0.0, -1e-3, float("nan"), float("inf")])
def test_samples_that_are_no_times_give_no_time(sample):
    result = by_provider([synthetic.record(CASE, "aten", measurement=synthetic.constant(sample))])["aten"]
    assert (result.time, result.gbps, result.speedup) == (None, None, None)
    assert "not all finite and positive" in result.problem


def test_measurement_without_blocks_gives_no_time():
    result = by_provider([synthetic.record(CASE, "aten", measurement=synthetic.constant(1.0, processes=0))])["aten"]
    assert result.time is None
    assert result.problem


def test_unmeasured_baseline_next_to_zero_samples_gives_null_not_infinity():
    results = by_provider(
        [synthetic.record(CASE, "aten"), synthetic.record(CASE, "compile", measurement=synthetic.constant(0.0, processes=5))]
    )
    assert results["compile"].speedup is None


def test_empty_case_has_a_time_but_no_bandwidth():
    results = by_provider(synthetic.group(Case.make("rms_norm", "forward", (0, 8), "float32")))
    assert results["aten"].time is not None
    assert results["aten"].gbps is results["aten"].copy_share is results["copy"].gbps is None


def test_throttled_records_are_reported():
    assert by_provider([synthetic.record(CASE, "aten", status=Status.THROTTLED, reason="hot")])["aten"].time is not None


def test_worst_error_is_the_largest_of_its_tolerance_and_not_finite_comes_first():
    small, large, none = (synthetic.accuracy(error=error, tensor=name) for error, name in ((0.1, "y"), (0.9, "dx"), (None, "dw")))
    assert by_provider([synthetic.record(CASE, accuracy=(small, large))])["aten"].worst == large
    assert by_provider([synthetic.record(CASE, accuracy=(small, none, large))])["aten"].worst == none
    assert error_fraction(none) is None


def departing(definition, **times):
    """Return a group whose `guide` computes another definition."""
    departure = Departure(definition=definition, accuracy=(synthetic.accuracy(),))
    guide = synthetic.record(CASE, "guide", departure=departure, time_s=times.pop("guide"))
    return [guide, *synthetic.group(CASE, ("aten", "compile"), **times)]


def test_another_function_has_a_time_and_no_speedup():
    guide = by_provider(departing(Definition.EPS_OUTSIDE_ROOT, guide=1e-3, aten=4e-3))["guide"]
    assert guide.time is not None
    assert guide.speedup is None
    assert guide.speedup_missing == "another formula"


def test_what_only_rounds_elsewhere_is_compared():
    guide = by_provider(departing(Definition.UNROUNDED_SUM, guide=1e-3, aten=4e-3))["guide"]
    assert guide.speedup.estimate == pytest.approx(4.0, rel=0.01)
