"""What cannot be read as a run says why."""

from __future__ import annotations

import pytest
from written import write

from normbench.errors import NormbenchError, UsageError
from normbench.storage.store import RunWriter
from normbench.storage.stored_run import LATEST, read_run


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
