"""Run tests in a process of their own whose Triton interprets its kernels; pytest's own process must not have it."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).with_name("interpreted")
TIMEOUT_S = 600


def run_interpreted(module: str, folder: Path, *arguments: str) -> dict[str, dict[str, str]]:
    """Run the tests of a module of `interpreted` and return what they recorded, by test; fail with their output if one fails.

    `folder` takes their report, `arguments` go to pytest.
    """
    report = folder / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-q",
        f"--junitxml={report}",
        "-o",
        "junit_family=xunit1",
    ]
    done = subprocess.run(
        [*command, *arguments, str(FOLDER / module)],
        # This process may be one of several workers; the new one is not.
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        pytest.fail(f"{' '.join(arguments)} {module} in Triton's interpreter:\n{done.stdout}{done.stderr}", pytrace=False)
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {case.attrib["name"]: {entry.attrib["name"]: entry.attrib["value"] for entry in case.iter("property")} for case in cases}
