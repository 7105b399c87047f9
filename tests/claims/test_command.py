"""`normbench claims` from the outside."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from normbench.cli import app
from normbench.errors import NormbenchError, UsageError
from normbench.published import claims


def invoked(*arguments):
    return CliRunner().invoke(app, ["claims", *map(str, arguments)], catch_exceptions=False)


def test_list_names_every_claim_and_evaluates_none():
    rows = json.loads(invoked("--list", "--json").stdout)
    assert [row["id"] for row in rows] == [one.id for one in claims()]


def test_claims_are_evaluated_and_written(tmp_path):
    done = invoked(
        "--id",
        "rmsnorm-parameters-halve,guide-code-equals-formula,toy-20-no-norm-nan-at-300",
        "--studies",
        tmp_path,
        "--out",
        tmp_path / "page",
        "--json",
    )
    found = json.loads(done.stdout)
    assert found["counts"] == {"exact": 1, "wrong": 1, "no verdict": 1}
    first = found["claims"][0]
    assert (first["verdict"], first["published"]["layer_norm"], first["found"]["layer_norm"]["estimate"]) == ("exact", 2048, 2048)
    assert found["claims"][2]["reason"].startswith("waits for the study")
    assert (tmp_path / "page" / "claims.md").read_text().startswith("# Published claims")


def test_table_ends_with_the_counts():
    assert "1 exact" in invoked("--id", "exit-norm-pre-ln").stdout


def test_words_that_name_no_claim_are_refused():
    with pytest.raises(UsageError, match="'no-such' is unknown"):
        invoked("--id", "no-such")
    with pytest.raises(UsageError, match="known are"):
        invoked("--tier", "no-such")
    with pytest.raises(UsageError, match="no claim is left"):
        invoked("--id", "exit-norm-pre-ln", "--tier", "op")


def test_a_folder_of_studies_that_was_named_must_be_there(tmp_path):
    with pytest.raises(UsageError, match=r"--studies .*nosuch' does not exist: give a folder that is there"):
        invoked("--studies", tmp_path / "nosuch")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--studies .*file' is a file"):
        invoked("--studies", tmp_path / "file")


def test_a_claim_named_twice_is_counted_once_and_none_is_no_claim():
    found = json.loads(invoked("--id", "exit-norm-pre-ln,,exit-norm-pre-ln", "--json").stdout)
    assert found["counts"] == {"exact": 1}
    with pytest.raises(UsageError, match="--id ',' names no claim: `normbench claims --list` lists them"):
        invoked("--id", ",")


def test_a_file_in_place_of_the_folder_is_refused_before_a_claim_is_evaluated(tmp_path, monkeypatch):
    monkeypatch.setattr("normbench.claims.evaluators.evaluate", lambda *_: pytest.fail("evaluated"))
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--out .*file' cannot be a folder"):
        invoked("--id", "exit-norm-pre-ln", "--out", tmp_path / "file")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_verdicts_are_shown_although_the_page_cannot_be_written(form, tmp_path, monkeypatch):
    def write_page(*_, **__):
        raise NormbenchError("no space left")

    monkeypatch.setattr("normbench.claims.page.write_page", write_page)
    done = CliRunner().invoke(app, ["claims", "--id", "exit-norm-pre-ln", "--out", str(tmp_path), *form])
    assert isinstance(done.exception, NormbenchError)
    assert json.loads(done.stdout)["page"] is None if form else "1 exact" in done.stdout


def test_help_is_instant_and_says_what_it_does(normbench):
    done = normbench("claims", "--help", check=True)
    assert "Hold published claims" in done.stdout
