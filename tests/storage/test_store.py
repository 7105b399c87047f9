"""Runs survive crashes, and what cannot be read says why."""

from __future__ import annotations

import json
import resource

import pytest
import synthetic
from written import CASE, RECORDS, create, write

from normbench.errors import NormbenchError
from normbench.records.record import Status
from normbench.storage.store import RunWriter
from normbench.storage.stored_run import LATEST, Run, RunStatus, list_runs, read_run


def test_what_was_written_is_read(tmp_path):
    writer = write(tmp_path)
    run = read_run(writer.path)
    assert run.records == tuple(RECORDS)
    assert run.is_complete
    assert run.info == writer.info
    assert run.info.machine == synthetic.MACHINE
    assert run.info.git_commit == "unknown"
    assert read_run(writer.path.name, root=tmp_path) == read_run(writer.path / "run.json") == run


def test_latest_is_the_run_started_last(tmp_path):
    first, second = write(tmp_path), write(tmp_path)
    assert first.path != second.path
    assert list_runs(tmp_path) == [first.path.name, second.path.name]
    assert read_run(root=tmp_path).path == second.path
    RunWriter.resume(first.path).close()
    assert read_run(LATEST, root=tmp_path).path == first.path


def test_label_becomes_a_safe_folder_name(tmp_path):
    writer = write(tmp_path, label="../my grid/ü")
    assert writer.path.parent == tmp_path
    assert writer.path.name.endswith("-my-grid")


def test_run_is_incomplete_until_it_is_finished(tmp_path):
    writer = create(tmp_path)
    writer.append(RECORDS[0])
    run = read_run(writer.path)
    assert run.info.status is RunStatus.INCOMPLETE
    assert run.missing == 2
    writer.close()


def test_run_that_lacks_records_is_never_complete(tmp_path):
    writer = write(tmp_path, planned=4)
    assert writer.info.status is RunStatus.INCOMPLETE
    assert not read_run(writer.path).is_complete


def test_exception_marks_the_run_incomplete_and_passes(tmp_path):
    writer = create(tmp_path)
    writer.append(RECORDS[0])
    with pytest.raises(KeyboardInterrupt), writer:
        raise KeyboardInterrupt
    run = read_run(writer.path)
    assert run.info.status is RunStatus.INCOMPLETE
    assert run.info.notes == ["stopped by KeyboardInterrupt"]
    assert run.records == tuple(RECORDS[:1])


def test_finished_run_takes_no_more_records(tmp_path):
    writer = write(tmp_path)
    with pytest.raises(NormbenchError, match="is finished; resume it"):
        writer.append(RECORDS[0])


def test_note_is_on_disk_at_once(tmp_path):
    with create(tmp_path) as writer:
        writer.note("clock fell at 21:00")
        assert read_run(writer.path).info.notes == ["clock fell at 21:00"]


@pytest.mark.parametrize("cut", [1, 2, 500])
def test_torn_last_line_is_dropped_with_a_note(tmp_path, cut):
    path = write(tmp_path).path
    file = path / "records.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    run = read_run(path)
    # A cut of 1 takes the newline only: the record is whole.
    kept = RECORDS if cut == 1 else RECORDS[:-1]
    assert run.records == tuple(kept)
    assert bool(run.info.notes) == (cut > 1)


@pytest.mark.parametrize("cut", [0, 1, 2, 500])
def test_resume_appends_behind_a_torn_line(tmp_path, cut):
    path = write(tmp_path).path
    file = path / "records.jsonl"
    file.write_bytes(file.read_bytes()[: -cut or None])
    with RunWriter.resume(path) as writer:
        assert read_run(path).info.status is RunStatus.INCOMPLETE
        for record in RECORDS:
            if record.key not in writer.done:
                writer.append(record)
    run = read_run(path)
    assert run.records == tuple(RECORDS)
    assert run.is_complete
    assert len(run.info.notes) == (cut > 1)


def test_last_record_of_a_key_wins(tmp_path):
    again = synthetic.record(CASE, "eager", status=Status.OOM, reason="no memory left")
    path = write(tmp_path, [*RECORDS, again]).path
    run = read_run(path)
    assert len(run.records) == len(RECORDS)
    assert next(record for record in run.records if record.provider == "eager") == again


def test_files_are_strict_json(tmp_path):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    writer = create(tmp_path, planned=1)
    writer.info.settings["budget_s"] = float("inf")
    writer.append(RECORDS[0])
    path = writer.finish()
    settings = json.loads((path / "run.json").read_text(), parse_constant=refuse)["settings"]
    assert settings["budget_s"] is None
    for line in (path / "records.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


def test_record_that_is_not_valid_is_not_written(tmp_path):
    bad = synthetic.record(CASE, measurement=synthetic.constant(float("nan")))
    with create(tmp_path, planned=1) as writer:
        with pytest.raises(NormbenchError, match="cannot be stored"):
            writer.append(bad)
        writer.append(RECORDS[0])
    assert read_run(writer.path).records == (RECORDS[0],)


def test_root_that_cannot_be_written_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NormbenchError, match=r"cannot make a run under .*file"):
        create(tmp_path / "file")
    with pytest.raises(NormbenchError, match=r"cannot make a run under .*Not a directory"):
        create(tmp_path / "file" / "below")


def test_full_disk_loses_nothing_written_before(tmp_path):
    writer = create(tmp_path)
    writer.append(RECORDS[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((writer.path / "records.jsonl").stat().st_size + 100, hard))
    try:
        with pytest.raises(NormbenchError, match=r"cannot write op/rms.*; the 1 records before are kept: make room, then resume"):
            writer.append(*RECORDS[1:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    run: Run = read_run(writer.path)
    assert run.records == (RECORDS[0],)
    assert run.info.notes == []
    writer.append(*RECORDS[1:])
    assert read_run(writer.finish()).records == tuple(RECORDS)
