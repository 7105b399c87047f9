"""Where more is better a rise is an improvement, and it is told in tokens per second."""

import json

import msgspec
import pytest
import throughput_runs

from normbench.cases.conditions import Conditions, Parallel
from normbench.cases.metric import TIME, Better, tokens_metric
from normbench.comparison.circumstances import record_discrepancies, run_fields
from normbench.comparison.difference import Difference, Verdict, judge
from normbench.comparison.outcome import compare_runs, to_json
from normbench.comparison.rows import make_rows
from normbench.comparison.table import columns, lines_below, markdown, rows
from normbench.gate.outcome import ExitCode
from normbench.records.record import NO_NORM, Status
from normbench.storage.store import RunWriter
from normbench.storage.stored_run import read_run

from . import sides

LENGTHS = range(16, 22)
"""Six groups, as many as tell how far the controls moved."""


def served(seed, *, mood=1.0, **times):
    """Return the records of a run that serves; the arms of a provider in `times` take so many times as long."""
    scaled = {(norm, provider): mood * time_s * times.get(provider, 1.0) for (norm, provider), time_s in throughput_runs.TIMES.items()}
    found = []
    for tokens in LENGTHS:
        fields = {"times": scaled, "without": mood * 7e-3, "seed": seed, "noise": 0.002, "processes": 8}
        found += throughput_runs.group("decode", size=(2, 4 * tokens), **fields)
    return found


def by_provider(before, after, **fields):
    found = make_rows(before, after, detectable=0.5, **fields).rows
    assert len(found) == 4 * len(LENGTHS)
    return {name: [one for one in found if one.provider == name] for name in ("aten", "compile")}


def test_fewer_tokens_per_second_are_slower_and_more_are_faster():
    slower = by_provider(served(sides.A), served(sides.B, compile=1.6))
    assert {one.verdict for one in slower["compile"]} == {Verdict.SLOWER}
    assert {one.verdict for one in slower["aten"]} == {Verdict.NO_DIFFERENCE}
    faster = by_provider(served(sides.A, compile=1.6), served(sides.B))
    assert {one.verdict for one in faster["compile"]} == {Verdict.FASTER}
    assert {one.verdict for one in faster["aten"]} == {Verdict.NO_DIFFERENCE}


def test_a_row_holds_the_metric_and_its_ratio():
    row = by_provider(served(sides.A), served(sides.B, compile=1.6))["compile"][0]
    assert (row.metric, row.unit, row.better) == ("tokens_per_s", "tokens/s", Better.MORE)
    assert row.before == pytest.approx(2 / row.before_s)
    assert row.after == pytest.approx(2 / row.after_s)
    assert row.direct.ratio == pytest.approx(row.after / row.before) == pytest.approx(1 / 1.6, rel=0.15)
    assert row.direct.low < row.direct.ratio < row.direct.high < 1
    assert row.relative.ratio == pytest.approx(1 / 1.6, rel=0.05)
    assert row.reference == NO_NORM


def test_a_time_stays_a_time():
    row = make_rows(sides.records(sides.A), sides.records(sides.B, times={"eager": 1.6})).rows[0]
    assert (row.metric, row.unit, row.better) == (TIME.name, "s", Better.LESS)
    assert (row.before, row.after) == (row.before_s, row.after_s)
    assert row.direct.ratio == pytest.approx(row.after_s / row.before_s)


def test_a_machine_that_was_slower_all_through_makes_no_row_slower():
    table = make_rows(served(sides.A), served(sides.B, mood=1.5))
    assert {one.verdict for one in table.rows} <= {Verdict.INCONCLUSIVE, Verdict.NO_DIFFERENCE}
    assert table.drifts[0].direct.common_ratio == pytest.approx(1.5, rel=0.05), "of the controls' time"
    assert all(one.direct.ratio == pytest.approx(1 / 1.5, rel=0.15) for one in table.rows)


def compared(before, after, **fields):
    return compare_runs(sides.run(before), sides.run(after), **fields)


def test_the_exit_code_follows_the_metrics_direction():
    worse = compared(served(sides.A), served(sides.B, compile=2.5), fail_on=0.5)
    assert worse.exit_code is ExitCode.REGRESSION
    assert worse.sentence.startswith("Fail: B is slower than A by more than 50 % in 12 rows")
    assert "times A's tokens/s)" in worse.sentence
    better = compared(served(sides.A, compile=2.5), served(sides.B), fail_on=0.5)
    assert better.exit_code is ExitCode.PASS
    assert "B is faster than A in 12 of 24" in better.sentence


def test_the_table_shows_tokens_per_second_and_which_way_is_slower():
    found = compared(served(sides.A), served(sides.B, compile=1.6))
    assert columns(found) == ("row", "A", "tokens/s, B / A", "tokens/s over no_norm, B / A", "verdict", "smallest change found, in time")
    first = rows(found)[0]
    assert first[1].endswith(" tokens/s")
    assert first[2].startswith("0.6")
    text = "\n".join(lines_below(found))
    assert "Below 1 is slower: fewer tokens/s." in text
    assert "Above 1" not in text
    assert "percent are of the time that a rate stands for: 100 % slower is half of it" in text
    # A network has one control, and of that nothing is over it.
    assert "where the tokens/s tells it: no second control says how far the tokens/s over no_norm moves by itself" in text
    assert all(len(line.split(" | ")) == 6 for line in markdown(found).splitlines() if line.startswith("| throughput"))


def test_times_and_rates_in_one_table_are_told_apart():
    found = compared([*sides.records(sides.A), *served(sides.A)], [*sides.records(sides.B), *served(sides.B)])
    assert columns(found)[2] == "time or tokens/s, B / A"
    values = [row[1] for row in rows(found)]
    assert any(value.endswith("tokens/s") for value in values)
    assert any(value.endswith("s") and not value.endswith("/s") for value in values)
    assert "Of a time above 1 is slower, of tokens/s below 1." in lines_below(found)[3] + "\n".join(lines_below(found))


def told(ratio):
    return Difference(ratio=ratio, low=ratio * 0.99, high=ratio * 1.01, level=0.95, smallest_detectable=0.02)


def unsure(ratio):
    return Difference(ratio=ratio, low=0.5, high=2.0, level=0.95, smallest_detectable=0.02)


@pytest.mark.parametrize(
    ("direct", "relative", "verdict", "reason"),
    [
        (told(1.2), told(1.1), Verdict.FASTER, "better by 10 %"),
        (told(0.8), told(0.9), Verdict.SLOWER, "worse by 11 %"),
        (told(1.2), told(0.8), Verdict.INCONCLUSIVE, "the tokens/s and the tokens/s over the reference changed in opposite directions"),
        (told(0.8), unsure(1.0), Verdict.INCONCLUSIVE, "only the tokens/s is worse, by 25 %"),
        (unsure(1.0), told(1.25), Verdict.INCONCLUSIVE, "only the tokens/s over the reference is better, by 25 %"),
    ],
)
def test_a_rise_is_an_improvement(direct, relative, verdict, reason):
    assert judge(direct, relative, better=Better.MORE, metric="tokens/s") == (verdict, reason)


def test_another_metric_is_refused_and_named():
    before, after = served(sides.A), [msgspec.structs.replace(one, metric=TIME) for one in served(sides.B)]
    found = make_rows(before, after).rows
    assert {one.verdict for one in found} == {Verdict.NOT_COMPARABLE}
    assert found[0].reason == ("metric tokens_per_s (tokens/s, more is better, 2 per call) against time (s, less is better, 1 per call)")
    assert all(one.before is None for one in found), "a rate is not shown as a time"


def test_another_number_of_tokens_a_call_is_another_metric():
    record = served(sides.A)[0]
    other = msgspec.structs.replace(record, metric=tokens_metric(4))
    assert [one.field for one in record_discrepancies(record, other)] == ["metric"]


def test_what_was_not_measured_is_judged_by_nothing():
    records = served(sides.B)
    gone = msgspec.structs.replace(records[0], measurement=None, status=Status.OOM, reason="no memory left", metric=TIME)
    row = make_rows(served(sides.A), [gone, *records[1:]]).rows[0]
    assert (row.verdict, row.reason, row.unit) == (Verdict.FAILED, "oom in B: no memory left", "tokens/s")
    assert row.before is not None
    assert row.after is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"processes": 2}, ["processes"]), ({"parallel": Parallel.DDP}, ["parallel"]), ({"threads": 1}, ["threads"])],
)
def test_every_condition_is_a_field_that_must_not_differ(fields, expected):
    record = served(sides.A)[0]
    other = msgspec.structs.replace(record, conditions=msgspec.structs.replace(record.conditions, **fields))
    assert [one.field for one in record_discrepancies(record, other)] == expected


def test_all_conditions_may_be_allowed_by_name():
    assert set(Conditions.__struct_fields__) | {"metric"} <= run_fields(sides.run([]))


def test_how_long_arms_ran_by_themselves_is_no_difference():
    plans = [{"plan": {"budget_s": 8.0, **more}} for more in ({}, {"sustain_s": 2.0})]
    runs = [sides.run(served(seed), settings=settings) for seed, settings in zip((sides.A, sides.B), plans, strict=True)]
    assert {one.verdict for one in compare_runs(*runs).rows} <= {Verdict.INCONCLUSIVE, Verdict.NO_DIFFERENCE}


def test_runs_on_disk_are_compared_in_tokens_per_second(tmp_path):
    paths = []
    for name, records in (("before", served(sides.A)), ("after", served(sides.B, compile=1.6))):
        with RunWriter.create(
            name, command=[], seed=0, planned=4 * len(LENGTHS), settings={}, machine={"cpu_model": "x"}, versions={}, root=tmp_path
        ) as writer:
            writer.append(*records)
            paths.append(writer.path)
    found = json.loads(to_json(compare_runs(*map(read_run, paths))))
    assert {row["unit"] for row in found["rows"]} == {"tokens/s"}
    assert {row["better"] for row in found["rows"]} == {"more"}
    assert {row["verdict"] for row in found["rows"] if row["provider"] == "compile"} == {"slower"}
