"""Runs survive crashes, and what cannot be read says why."""

from __future__ import annotations

import json
import resource

import pytest
import synthetic

from normbench.case import Case
from normbench.errors import NormbenchError, UsageError
from normbench.record import Status
from normbench.store import LATEST, Run, RunStatus, RunWriter, list_runs, read_run

CASE = Case.make("rms_norm", "forward", (4, 128, 512), "float32")
RECORDS = synthetic.group(CASE)
assert len(RECORDS) == 5, "three providers, two controls"


def create(root, planned=3, label="seed") -> RunWriter:
    return RunWriter.create(
        label,
        command=synthetic.COMMAND,
        seed=0,
        planned=planned,
        settings=synthetic.SETTINGS,
        machine=synthetic.MACHINE,
        versions=synthetic.VERSIONS,
        root=root,
    )


def write(root, records=RECORDS, **options) -> RunWriter:
    with create(root, **options) as writer:
        for record in records:
            writer.append(record)
    return writer


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


@pytest.mark.parametrize("token", [b"NaN", b"Infinity"])
def test_nan_in_a_record_is_refused_with_file_and_line(tmp_path, token):
    path = write(tmp_path).path
    file = path / "records.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"first_call_s":0.01', b'"first_call_s":' + token, 1))
    with pytest.raises(NormbenchError, match=r"records\.jsonl, line 1: not a normbench record"):
        read_run(path)


def test_damaged_line_in_the_middle_is_refused(tmp_path):
    path = write(tmp_path).path
    file = path / "records.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], lines[1][:40] + b"\n", *lines[2:]]))
    with pytest.raises(NormbenchError, match="line 2"):
        read_run(path)


@pytest.mark.parametrize("name", ["run.json", "records.jsonl"])
def test_newer_schema_is_refused(tmp_path, name):
    path = write(tmp_path).path
    text = (path / name).read_text()
    (path / name).write_text(text.replace('"schema": 1' if name == "run.json" else '"schema":1', '"schema":99'))
    with pytest.raises(NormbenchError, match=r"schema 99 is newer than 1.*update normbench"):
        read_run(path)


@pytest.mark.parametrize("text", ["[]", '{"id": NaN}', '{"id": "x"}', "", "\xff"])
def test_foreign_run_json_is_refused(tmp_path, text):
    path = write(tmp_path).path
    (path / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(NormbenchError, match=r"not the run\.json of a normbench run"):
        read_run(path)


def test_foreign_directory_is_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(NormbenchError, match=r"photos is not a normbench run: it has no run\.json"):
        read_run(tmp_path / "photos")
    with pytest.raises(NormbenchError, match="not a normbench run"):
        RunWriter.resume(tmp_path / "photos")


def test_unknown_run_lists_those_there(tmp_path):
    path = write(tmp_path).path
    with pytest.raises(UsageError, match=f"there is no run 'gone'.*{path.name}"):
        read_run("gone", root=tmp_path)
    with pytest.raises(UsageError, match="no run is there; make one with `normbench run`"):
        read_run(root=tmp_path / "empty")
    (tmp_path / LATEST).write_text("gone\n")
    with pytest.raises(UsageError, match=path.name):
        read_run(root=tmp_path)


def test_unreadable_file_is_explained(tmp_path):
    path = write(tmp_path).path
    (path / "records.jsonl").unlink()
    (path / "records.jsonl").mkdir()
    with pytest.raises(NormbenchError, match=r"cannot read .*records\.jsonl: Is a directory"):
        read_run(path)


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
