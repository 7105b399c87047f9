"""The whole report: nothing vanishes, nothing is NaN, an incomplete run says so at once."""

from __future__ import annotations

import io
import re

import pytest
import synthetic
from rich.console import Console

from normbench.cases.case import Case
from normbench.cases.conditions import Cache, Conditions
from normbench.errors import NormbenchError
from normbench.records.measurement import Block, Measurement, StopReason
from normbench.records.record import Status
from normbench.report import write_report
from normbench.report.console import summary_table
from normbench.report.findings import first_call_table, oddities, unmeasured
from normbench.report.markdown import render_markdown
from normbench.results.derived import derive_results
from normbench.storage.stored_run import RunStatus

CASE = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")
FAILED = [
    synthetic.record(CASE, f"p-{status.value}", status=status, reason=f"because of {status.value} | and\nmore")
    for status in Status
    if not status.is_measured
]


def render(run):
    return render_markdown(run, derive_results(run.records), [])


def mixed_run():
    others = synthetic.group(CASE, conditions=Conditions(device="cpu", threads=2, cache=Cache.COLD))
    broken = synthetic.record(CASE, "broken", measurement=synthetic.constant(0.0))
    throttled = synthetic.record(CASE, "hot", status=Status.THROTTLED, reason="over 90 degrees")
    return synthetic.run([*synthetic.group(CASE), *FAILED, *others, broken, throttled])


def test_files_lie_side_by_side_and_are_named_in_the_text(tmp_path):
    path = write_report(synthetic.full_run(), tmp_path / "out")
    assert path == tmp_path / "out" / "report.md"
    text = path.read_text()
    pictures = re.findall(r"\]\((.*?\.png)\)", text)
    assert len(pictures) == 3
    assert sorted(file.name for file in path.parent.iterdir()) == sorted([*pictures, "report.md"])


def test_report_is_the_same_every_time(tmp_path):
    paths = [write_report(synthetic.run(synthetic.group(CASE)), tmp_path / name) for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_answer_comes_before_figures_and_tables():
    text = render(synthetic.full_run())
    assert text.startswith("# normbench report: 20261130-205008-seed\n")
    assert text.index("## Answer") < text.index("## Not measured") < text.index("## Tables")
    assert "- **rms_norm forward, float32**: fastest is `compile` at 4 of 4." in text


def test_header_says_what_ran_on_what():
    text = render(synthetic.full_run())
    for fact in (
        "Example CPU 9000",
        "16 GiB",
        "torch 2.13.0",
        "2 threads, warm cache, reused pages",
        "5 processes x 2 repetitions",
        "0123456789ab",
    ):
        assert fact in text


def test_every_record_asked_for_appears():
    run = mixed_run()
    text = render(run)
    for record in run.records:
        if record.role == "provider":
            assert record.provider in text
        if not record.status.is_measured or record.provider == "broken":
            assert f"`{record.key}`" in text
    sections = text.split("\n### ")
    for cache in Cache:
        assert any(f"{cache.value} cache" in section and "8x256x1024" in section for section in sections)
    for record in FAILED:
        assert record.status.value in text


def test_reasons_are_given_once_per_kind():
    cases = synthetic.cases(["rms_norm"], ["forward"])
    reason = "triton needs a GPU; this machine has none"
    results = derive_results([one for case in cases for one in synthetic.group(case, ("aten", "triton"))])
    (found,) = unmeasured(results)
    assert (found.status, found.reason, found.providers, len(found.reasons)) == ("unsupported", reason, ["triton"], 4)


def test_reasons_that_differ_in_numbers_are_one_kind_but_all_are_listed():
    cases = synthetic.cases(["rms_norm"], ["forward"])
    failed = [synthetic.record(case, "mine", status=Status.OOM, reason=f"{case.numel} bytes do not fit") for case in cases]
    (found,) = unmeasured(derive_results(failed))
    assert found.reason == "262144 bytes do not fit (elsewhere with other numbers)"
    text = render(synthetic.run(failed))
    assert all(f"- `{one.key}`: oom, {one.reason}" in text for one in failed)


def test_no_nan_infinity_or_empty_cell():
    text = render(mixed_run())
    assert not re.search(r"(?i)\b(nan|inf|none|null)\b", text.partition("## How to read")[0])
    assert "|  |" not in text


def test_tables_are_rectangular():
    for block in re.findall(r"(?:^\|.*\|\n)+", render(mixed_run()), flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


@pytest.mark.parametrize(
    ("status", "planned", "words"), [("incomplete", 3, "not finished"), ("complete", 7, "4 are missing"), ("incomplete", 7, "4 are")]
)
def test_incomplete_run_says_so_in_its_first_lines(status, planned, words):
    text = render(synthetic.run(synthetic.group(CASE), status=RunStatus(status), planned=planned))
    head = "\n".join(text.splitlines()[:3])
    assert "**Incomplete run**" in head
    assert words in head
    assert "passes no gate" in head


def test_empty_run_is_no_answer(tmp_path):
    text = write_report(synthetic.run([], planned=0), tmp_path).read_text()
    assert "**Empty run**" in text
    assert "Nothing was measured" in text
    assert list(tmp_path.glob("*.png")) == []


def test_run_without_a_time_is_reported(tmp_path):
    text = write_report(synthetic.run([synthetic.record(CASE, measurement=synthetic.constant(0.0))]), tmp_path).read_text()
    assert "No figure of time" in text
    assert "its samples are not all finite and positive" in text


def test_notes_are_shown():
    assert "- Note: stopped by KeyboardInterrupt" in render(synthetic.run(synthetic.group(CASE), notes=["stopped by KeyboardInterrupt"]))


def test_norms_are_compared_with_a_warning():
    text = render(synthetic.full_run())
    assert "**not side by side**" in text
    assert "rms_norm forward, float32, `compile`: 0.7" in text


def test_every_table_has_its_command():
    text = render(synthetic.full_run())
    assert text.count("normbench run --grid 4x128x512,8x256x1024,16x512x2048,32x1024x4096 --provider") == 4
    assert "normbench run --grid seed --seed 0" in text


def test_first_call_names_the_most_expensive_case():
    table = first_call_table(derive_results(synthetic.group(CASE)))
    assert ["compile", "1", "2.50 s", "2.50 s", CASE.id] in table.rows


def test_a_compilation_found_on_disk_is_not_mixed_with_one_that_was_made():
    records = [synthetic.record(CASE, "compile"), synthetic.record(CASE, "mine", settings={"compile_cache": "hit"}, first_call_s=0.4)]
    assert [row[0] for row in first_call_table(derive_results(records)).rows] == ["compile", "mine, found in its cache"]


COLD = Conditions(device="cpu", threads=2, cache=Cache.COLD)


def block_with(**fields):
    block = Block(started_at=0.0, inner=1, samples_s=((2e-6, 2e-6),), **fields)
    return Measurement(timer="a clock", blocks=(block, block), stop=StopReason.BLOCKS)


def test_a_warm_case_may_beat_the_memorys_peak():
    results = derive_results(synthetic.group(CASE, aten=1e-3))
    assert not any("peak" in sentence for sentence in oddities(results, 5.0))


@pytest.mark.parametrize(
    ("records", "peak", "words"),
    [
        (synthetic.group(CASE, aten=1e-3, copy=4e-3), None, "more than 1.5 times the bandwidth of a copy"),
        (synthetic.group(CASE, conditions=COLD, aten=1e-3), 5.0, "**error**: above the device's peak of 5.00 GB/s"),
        ([synthetic.record(CASE, measurement=block_with(others_cpu_share=0.6))], None, "took up to 60 % of the usable cores"),
        ([synthetic.record(CASE, measurement=block_with(page_faults_per_call=4096.0))], None, "new pages were met"),
        # B44: device time under launch time.
        ([synthetic.record(CASE, measurement=block_with(host_s=((9e-6, 9e-6),)))], None, "launch-bound"),
        ([synthetic.record(CASE, status=Status.THROTTLED, reason="hot")], None, "throttled"),
        ([synthetic.record(CASE, measurement=synthetic.measurement(1e-3, processes=1))], None, "measured in one process"),
        ([synthetic.record(CASE, measurement=synthetic.measurement(1e-3, processes=1, repetitions=1))], None, "measured only once"),
        (synthetic.group(CASE, ["compile"]), None, "no speed-up (aten was not measured)"),
    ],
)
def test_what_looks_odd_is_said(records, peak, words):
    assert any(words in sentence for sentence in oddities(derive_results(records), peak))


def test_folder_that_cannot_be_written_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NormbenchError, match=r"cannot write report.md to .*file"):
        write_report(synthetic.run(synthetic.group(CASE)), tmp_path / "file" / "below")


def test_console_summary_holds_figures_reasons_and_state():
    console = Console(width=200, file=io.StringIO())
    console.print(summary_table(mixed_run()))
    text = console.file.getvalue()
    assert "fastest is compile at 1 of 1" in text
    assert "because of oom" in text
    assert "Complete: " in text
