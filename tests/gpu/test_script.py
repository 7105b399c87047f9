"""The script that measures on a device asks for what there is, and says so where there is no device."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from normbench.cases.throughput_case import ThroughputCase
from normbench.workloads.throughput import refuse_case

SCRIPT = Path(__file__).parent / "run.py"


def loaded():
    spec = importlib.util.spec_from_file_location("gpu_run", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_throughput_case_is_one_that_its_network_can_do():
    ids = loaded().throughput_cases()
    assert len(ids) == len(set(ids)) == 24
    for text in ids:
        case = ThroughputCase.from_id(text)
        refuse_case(case)
        assert case.id == text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("tier", ["op", "throughput"])
def test_without_a_device_it_says_that_nothing_was_timed(tier):
    ended = subprocess.run([sys.executable, SCRIPT, "--tier", tier], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "no CUDA device: nothing was checked and nothing was timed" in ended.stderr
