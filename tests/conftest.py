"""Fixtures that several test modules share."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def pytest_configure():
    """Let Ctrl-C interrupt again: in the background of a script it comes ignored, and every process that tests start inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
