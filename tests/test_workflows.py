"""CI files are YAML, call the one command with options that it has, and give code from strangers no rights."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from normbench.cli import app

ROOT = Path(__file__).parents[1]
GITHUB, GITLAB = ".github/workflows/gate.yml", "examples/gate.gitlab-ci.yml"
FILES = (GITHUB, GITLAB)


def read(name):
    return yaml.safe_load((ROOT / name).read_text())


def github_steps():
    return read(GITHUB)["jobs"]["gate"]["steps"]


def scripts(name):
    """Return every shell line that a file runs."""
    if name == GITHUB:
        return [line for step in github_steps() for line in step.get("run", "").splitlines()]
    job = read(name)["gate"]
    return [*job["before_script"], *job["script"]]


def gate_words(name):
    """Return the words of the one line that runs the gate."""
    (line,) = (line for line in scripts(name) if "normbench" in line)
    return shlex.split(line)


def known_options():
    command = typer.main.get_command(app).commands["gate"]
    return {option: parameter for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("name", FILES)
def test_the_one_command_is_called_with_options_that_it_has(name):
    program, command, *words = gate_words(name)
    assert (program, command) == ("normbench", "gate")
    options = [word for word in words if word.startswith("-")]
    assert "--base" in options
    assert set(options) <= known_options().keys()
    # Each has a value of its own: nothing is left over that would be read as a subcommand.
    assert len(words) == 2 * len(options)
    assert not any(known_options()[option].is_flag for option in options)


def test_all_files_call_the_same_command_but_for_the_name_of_the_base():
    without_base = [[word for word in gate_words(name) if "$" not in word] for name in FILES]
    assert without_base[0] == without_base[1]


@pytest.mark.parametrize("name", FILES)
def test_nothing_hides_the_exit_code(name):
    assert not any(mark in line for line in scripts(name) for mark in ("|| true", "set +e", "; true"))
    jobs = [*github_steps(), *read(GITHUB)["jobs"].values()] if name == GITHUB else [read(name)["gate"]]
    assert not any(job.get("continue-on-error") or job.get("allow_failure") for job in jobs)


@pytest.mark.parametrize("name", FILES)
def test_versions_are_the_tested_ones(name):
    (install,) = (line for line in scripts(name) if line.startswith("pip install"))
    assert shlex.split(install) == ["pip", "install", "-c", "constraints.txt", "-e", "."]
    assert (ROOT / "constraints.txt").is_file()


def test_code_of_a_pull_request_gets_no_rights():
    workflow = read(GITHUB)
    # YAML 1.1 reads the key `on` as true.
    assert set(workflow[True]) == {"pull_request"}
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    assert "secrets." not in (ROOT / GITHUB).read_text()
    checkout = next(step for step in github_steps() if step.get("uses", "").startswith("actions/checkout@"))
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}


def test_nothing_of_a_pull_request_is_pasted_into_a_script():
    assert not any("${{" in line for line in scripts(GITHUB))
    (gate,) = (step for step in github_steps() if "normbench" in step.get("run", ""))
    assert gate["env"]["BASE"] == "origin/${{ github.base_ref }}"


def test_actions_are_pinned_by_major_version():
    uses = [step["uses"] for step in github_steps() if "uses" in step]
    assert uses
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", one) for one in uses)


def test_result_is_shown_and_kept_whatever_it_was():
    names = [step.get("name") for step in github_steps()]
    after = github_steps()[names.index("Gate") + 1 :]
    assert all(step["if"] == "always()" for step in after)
    assert any("$GITHUB_STEP_SUMMARY" in step.get("run", "") for step in after)
    (upload,) = (step["with"] for step in after if "uses" in step)
    # Names that begin with a dot are left out otherwise.
    assert upload["include-hidden-files"] is True
    kept = known_options()["--out"].default
    assert f"{kept}/" in upload["path"].split()
    assert f"{kept}/" in read(GITLAB)["gate"]["artifacts"]["paths"]
    assert read(GITLAB)["gate"]["artifacts"]["when"] == "always"
    assert gate_words(GITHUB)[gate_words(GITHUB).index("--markdown") + 1] in upload["path"].split()


def test_all_of_history_is_there_for_the_base():
    assert read(GITLAB)["gate"]["variables"]["GIT_DEPTH"] == "0"
