"""`python -m normbench.throughput` without torchrun: `normbench run` of one process."""

from __future__ import annotations

import subprocess
import sys


def test_help_names_a_command_that_can_be_typed_and_the_tier_that_is_meant():
    command = [sys.executable, "-m", "normbench.throughput", "--help"]
    shown = " ".join(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert shown.startswith("Usage: normbench run [OPTIONS]")
    assert "Typed as `python -m normbench.throughput`, as torchrun does, the tier is throughput where none is named." in shown
