"""Another Python: what is asked of it, and how a worker comes to be run by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import normbench
from normbench.errors import UsageError
from normbench.gate.interpreter import REQUIRED, Harness, Interpreter, find_interpreter, relay, running_interpreter


def script(folder, text, name="python"):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_python_is_known_by_its_path_and_the_versions_that_can_change_a_number():
    found = find_interpreter(Path(sys.executable))
    assert found == running_interpreter()
    assert found.executable == sys.executable, "a virtual environment is one by the link that it is called by"
    assert found.text.startswith(f"Python {sys.version.split()[0]}, torch ")


def test_a_package_that_is_not_there_is_none_and_left_out_of_the_text():
    one = Interpreter(executable="/p", python="3.12.1", versions={"torch": "2.9.0", "triton": None})
    assert one.text == "Python 3.12.1, torch 2.9.0"


def test_a_python_without_the_packages_is_refused_with_the_command_that_installs_them(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    path = tmp_path / "bin/python"
    with pytest.raises(UsageError) as refused:
        find_interpreter(path)
    assert str(refused.value) == (
        f"--base-python {str(path)!r} lacks {', '.join(REQUIRED)}, which what measures needs: {path} -m pip install {' '.join(REQUIRED)}"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("""echo '{"python": [3, 7, 1], "lacking": [], "versions": {}}'""", "is Python 3.7.1, and what measures needs 3.11"),
        ("echo hello", "does not run as a Python"),
        ("exit 3", "does not run as a Python"),
    ],
)
def test_what_is_no_python_or_too_old_is_refused(tmp_path, text, words):
    with pytest.raises(UsageError, match=words):
        find_interpreter(script(tmp_path, text))


@pytest.mark.parametrize("path", ["", "no-such-python"])
def test_what_is_not_there_is_refused(tmp_path, path):
    with pytest.raises(UsageError, match="is not a file: give the path of a Python"):
        find_interpreter(tmp_path / path)


def started_through(door, *arguments):
    return subprocess.run([sys.executable, *arguments], env={**os.environ, "PYTHONPATH": door}, capture_output=True, text=True, check=False)


def test_a_relayed_python_becomes_the_other_one_with_the_same_arguments_and_this_normbench_alone(tmp_path):
    other = script(tmp_path, f"""echo "$PYTHONPATH" > {tmp_path}/path; exec {sys.executable} "$@" """)
    with relay([str(other)], harness=Harness.ALONE) as door:
        done = started_through(door, "-P", "-c", "import sys, normbench; print(sys.argv, normbench.__path__)", "an argument", "42")
        harness = Path((tmp_path / "path").read_text().strip())
        assert done.stdout == f"['-c', 'an argument', '42'] ['{harness}/normbench']\n", done.stderr
        assert [path.resolve() for path in harness.iterdir()] == [Path(normbench.__file__).parent]
    assert not harness.exists()


def test_a_command_may_stand_before_this_python_and_leave_it_what_it_has():
    with relay(["/usr/bin/env", "STANDS=before", sys.executable], harness=Harness.WITH_PACKAGES) as door:
        done = started_through(door, "-c", "import msgspec, os, sys; print(os.environ['STANDS'], sys.argv[1:])", "42")
    assert done.stdout == "before ['42']\n", done.stderr


def test_a_python_that_cannot_be_started_is_no_reason_to_go_on_in_this_one():
    with relay(["/no/such/python"], harness=Harness.ALONE) as door:
        done = started_through(door, "-c", "print('here')")
    assert (done.returncode, done.stdout) == (127, "")
