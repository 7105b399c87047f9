"""`normbench compare` as a user meets it: runs on disk in, one screen and an exit code out."""

import json
from importlib import import_module

import pytest
import synthetic
from typer.testing import CliRunner

from normbench.cli import _guarded, app
from normbench.records.record import Status
from normbench.storage.store import RunWriter
from normbench.storage.stored_run import LATEST, RunStatus

from . import sides
from .sides import A, B, records

CASE = sides.CASES[0]


def stored(root, label, found, *, status=RunStatus.COMPLETE, **changes):
    """Write a run under a folder and return its name."""
    info = sides.run(found, **changes).info
    fields = {name: getattr(info, name) for name in ("command", "seed", "planned", "settings", "machine", "versions", "git_commit")}
    writer = RunWriter.create(label, root=root, **fields)
    writer.append(*found)
    return writer.finish(status).name


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(root):
    """Return the names of runs of the same machine by what is the matter with them."""
    missing = [one for one in records(B) if (one.case_id, one.provider) != (CASE.id, "eager")]
    wrong = [*missing, synthetic.record(CASE, "eager", status=Status.WRONG, reason="y is off by 2")]
    return {
        "before": stored(root, "before", records(A)),
        "same": stored(root, "same", records(B)),
        "slower": stored(root, "slower", records(B, times={"eager": 2.5})),
        "missing": stored(root, "missing", missing),
        "wrong": stored(root, "wrong", wrong),
        "partial": stored(root, "partial", records(B), status=RunStatus.INCOMPLETE),
        "other torch": stored(root, "other", records(B), versions={"torch": "2.14.0"}),
    }


@pytest.fixture
def compare(root, monkeypatch, capsys):
    """Run the command in this process and return its exit code, and what it said on either stream."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["normbench", "compare", *arguments, "--root", str(root)])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            _guarded(app)
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


def test_a_screen_begins_with_the_sentence_and_ends_with_where_figures_come_from(compare, runs):
    code, out, _ = compare(runs["before"], runs["slower"])
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("Slower: B is slower than A in 6 of 12 rows, most of all op/rms_norm/forward/")
    assert lines[1].split()[0] == "row"
    assert "slower" in lines[2]
    assert f"A: {runs['before']}, taken " in out
    assert "Controls of the op tier" in out
    assert len(lines) <= 24


@pytest.mark.parametrize(
    ("after", "share", "expected"),
    [
        ("same", "60%", 0),
        ("slower", "50%", 1),
        ("slower", "0.5", 1),
        ("wrong", "60%", 1),
        ("partial", "60%", 3),
        ("same", "1%", 3),
        ("missing", "60%", 4),
    ],
)
def test_exit_codes(compare, runs, after, share, expected):
    assert compare(runs["before"], runs[after])[0] == 0
    assert compare(runs["before"], runs[after], "--fail-on", share)[0] == expected


def test_latest_and_paths_name_runs_too(compare, runs, root):
    (root / LATEST).write_text(f"{runs['slower']}\n")
    code, out, _ = compare(str(root / runs["before"]), "latest")
    assert code == 0
    assert f"B: {runs['slower']}, taken " in out


def test_json_is_for_machines_and_markdown_for_a_comment(compare, runs, tmp_path):
    code, out, _ = compare(runs["before"], runs["slower"], "--json", "--markdown", str(tmp_path / "out.md"))
    found = json.loads(out)
    assert (code, found["exit_code"], len(found["rows"])) == (0, 0, 12)
    assert (tmp_path / "out.md").read_text().startswith(f"**{found['sentence']}**")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("before", "other torch"), "torch 2.13.0 against 2.14.0"),
        (("before", "nothing"), "there is no run 'nothing'"),
        (("before", "same", "--across", "torhc"), "--across 'torhc' is no field"),
        (("before", "same", "--reference", "atem"), "--reference 'atem' is not in run A"),
        (("before", "same", "--fail-on", "much"), "--fail-on 'much' is not a share"),
    ],
)
def test_what_can_never_work_exits_with_2_and_one_line(compare, runs, arguments, words):
    code, out, err = compare(*(runs.get(one, one) for one in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_what_is_studied_is_compared_and_said(compare, runs):
    code, out, _ = compare(runs["before"], runs["other torch"], "--across", "torch")
    assert code == 0
    assert "Allowed to differ: torch 2.13.0 against 2.14.0." in out


def test_markdown_that_cannot_be_written_is_said(compare, runs):
    code, out, err = compare(runs["before"], runs["same"], "--markdown", "/proc/none/out.md")
    assert (code, out) == (2, "")
    assert "--markdown: folder '/proc/none' of 'out.md' does not exist" in err


def test_what_was_found_is_shown_before_a_markdown_that_fails(compare, runs):
    code, out, err = compare(runs["before"], runs["same"], "--markdown", "/dev/full")
    assert code == 1
    assert "in 12 of 12 rows" in out
    assert "cannot write /dev/full" in err


def test_more_rows_than_a_screen_holds_are_counted(compare, runs, monkeypatch):
    monkeypatch.setattr(import_module("normbench.cli.compare"), "ROWS_SHOWN", 5)
    assert "… and 7 rows that are less urgent" in compare(runs["before"], runs["slower"])[1]


def test_help_names_the_exit_codes():
    shown = CliRunner().invoke(app, ["compare", "--help"]).output
    assert "--fail-on" in shown
    assert "1: slower or wrong, 3: cannot tell, 4: missing" in " ".join(shown.split())
