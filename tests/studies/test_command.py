"""`normbench study` from the outside."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from normbench.cli import app
from normbench.errors import UsageError


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


def test_long_study_runs_in_processes_of_its_own_from_the_command_line(normbench, tmp_path):
    done = normbench("study", "collapse", "--quick", "--steps", 1, "--jobs", 2, "--out", tmp_path, "--json", check=True)
    (collapse,) = json.loads(done.stdout)
    assert collapse["observations"] == len((tmp_path / "collapse" / "observations.jsonl").read_bytes().splitlines())
