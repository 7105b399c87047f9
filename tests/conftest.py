"""Fixtures that several test modules share."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def normbench(tmp_path_factory):
    """Run the command line in a process of its own, in an empty folder, and return the completed process."""
    folder = tmp_path_factory.mktemp("cli")

    def run(*arguments, cwd: Path = folder, check: bool = False, timeout: float = 300):
        return subprocess.run(
            [sys.executable, "-m", "normbench.cli", *map(str, arguments)],
            cwd=cwd,
            check=check,
            timeout=timeout,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture(scope="module")
def one_thread():
    """Compute on one thread: two threads on busy cores wait for each other, half a second for 33000 elements was seen."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
