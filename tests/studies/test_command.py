"""`normbench study` from the outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from normbench.cli import app
from normbench.errors import NormbenchError, UsageError
from normbench.studies.learning_rate import LEARNING_RATE
from normbench.studies.study import Scale


def invoked(*arguments):
    return CliRunner().invoke(app, ["study", *map(str, arguments)], catch_exceptions=False)


def test_list_names_every_study():
    names = [row["study"] for row in json.loads(invoked("list", "--json").stdout)]
    assert {"drift", "statistics", "residual-gradient", "norm-growth", "batch-contrast", "collapse", "learning-rate", "variants"} <= set(
        names
    )
    assert {"conversion", "precision", "accounting"} <= set(names)


def test_study_writes_its_page_and_refuses_to_begin_again_over_it(tmp_path):
    drift, statistics = json.loads(invoked("drift,statistics", "--seeds", 2, "--out", tmp_path, "--json").stdout)
    assert drift["page"] == str(tmp_path / "drift" / "drift.md")
    assert statistics["observations"] == 20
    assert (tmp_path / "drift" / "drift.png").stat().st_size > 10_000
    with pytest.raises(UsageError, match="--resume"):
        invoked("drift", "--out", tmp_path)
    assert "page: " in invoked("drift", "--seeds", 3, "--out", tmp_path, "--resume").stdout


def test_unknown_study_and_impossible_scale_are_refused():
    with pytest.raises(UsageError, match="known are drift"):
        invoked("no-such")
    with pytest.raises(UsageError, match="seeds 0 is none"):
        invoked("drift", "--seeds", 0)


@pytest.mark.parametrize("name", ["", ",", " "])
def test_no_name_is_no_study(name):
    with pytest.raises(UsageError, match="names none: `normbench study list` lists them"):
        invoked(name)


def test_a_study_named_twice_is_run_once(tmp_path):
    assert len(json.loads(invoked("drift,,drift", "--seeds", 1, "--out", tmp_path, "--json").stdout)) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("accounting", "--steps", 10), "steps 10 means nothing here: there is no training in accounting"),
        (("drift,statistics", "--steps", 10), "there is no training in drift, statistics"),
        (("accounting", "--seeds", 2), "seeds 2 means nothing here: nothing is random in accounting"),
        (("drift", "--steps", -1), "steps -1 is none"),
        (("drift", "--jobs", 0), "jobs 0 is none: give at least 1"),
        (("drift", "--jobs", -2), "jobs -2 is none: give at least 1"),
        (("drift", "--jobs", 2), "jobs 2 means nothing here: no trial of drift is long"),
    ],
)
def test_what_means_nothing_to_a_study_is_refused(arguments, why, tmp_path):
    with pytest.raises(UsageError, match=why):
        invoked(*arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_study_that_is_there_is_refused_before_another_is_run(tmp_path):
    invoked("drift", "--seeds", 1, "--out", tmp_path)
    with pytest.raises(UsageError, match="drift holds a study"):
        invoked("statistics,drift", "--out", tmp_path)
    assert not (tmp_path / "statistics").exists()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_findings_are_shown_although_the_page_cannot_be_written(form, tmp_path, monkeypatch):
    def write_page(*_, **__):
        raise NormbenchError("no space left")

    monkeypatch.setattr("normbench.studies.page.write_page", write_page)
    done = CliRunner().invoke(app, ["study", "drift", "--seeds", "1", "--out", str(tmp_path), *form])
    assert isinstance(done.exception, NormbenchError)
    assert json.loads(done.stdout)[0]["page"] is None if form else "Token norm by layer" in done.stdout


def test_long_study_runs_in_processes_of_its_own_from_the_command_line(normbench, tmp_path):
    done = normbench("study", "collapse", "--quick", "--steps", 1, "--jobs", 2, "--out", tmp_path, "--json", check=True)
    (collapse,) = json.loads(done.stdout)
    assert collapse["observations"] == len((tmp_path / "collapse" / "observations.jsonl").read_bytes().splitlines())


def test_ctrl_c_ends_a_long_study_at_once_and_says_what_is_kept(tmp_path):
    command = [sys.executable, "-m", "normbench.cli", "study", "learning-rate", "--jobs", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and not (tmp_path / "learning-rate" / "observations.jsonl").exists():
        time.sleep(0.05)
    # A terminal sends it to all processes of the command, those that are just starting too.
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    trials = len(LEARNING_RATE.plan(Scale()).trials)
    assert told == (
        f"normbench: interrupted; 0 of {trials} trials are kept in {tmp_path / 'learning-rate'}, and the same words with --resume go on\n"
    )
