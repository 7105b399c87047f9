"""`normbench run` from the outside, where its report cannot be written."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from normbench.cli import app
from normbench.errors import NormbenchError, UsageError

QUICK = ("--grid", "8x64", "--norm", "rms_norm", "--pass", "forward", "--provider", "aten", "--budget", "0.05", "--threads", "1")


def test_a_file_in_place_of_the_reports_folder_is_refused_before_anything_is_measured(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="cannot be a folder"):
            CliRunner().invoke(app, ["run", *QUICK, "--out", str(tmp_path / "runs"), "--report", str(path)], catch_exceptions=False)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "29500"], "port 29500 means nothing here: one process meets no other"),
        (["--ray-any-version"], "ray-any-version means nothing without ray"),
    ],
)
def test_words_about_several_processes_or_nodes_are_refused_where_there_is_one(words, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        CliRunner().invoke(app, ["run", *QUICK, "--out", str(tmp_path / "runs"), *words], catch_exceptions=False)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_what_was_measured_is_shown_although_the_report_cannot_be_written(form, tmp_path, monkeypatch):
    def write_report(*_):
        raise NormbenchError("no space left")

    monkeypatch.setattr("normbench.report.write_report", write_report)
    done = CliRunner().invoke(app, ["run", *QUICK, "--out", str(tmp_path), *form])
    assert isinstance(done.exception, NormbenchError)
    (run,) = (path.parent for path in tmp_path.glob("*/run.json"))
    if form:
        assert json.loads(done.stdout) == {"run": str(run), "report": None, "statuses": {"ok": 3}, "ok": True}
    else:
        assert f"run:    {run}" in done.stdout
        assert "report:" not in done.stdout
