"""What a task's process fails at is told from lack of memory."""

from __future__ import annotations

import signal

import pytest
import torch

from normbench.errors import NormbenchError
from normbench.measure.process import OutOfMemory, memory_told, status_of
from normbench.measure.worker import TaskDied
from normbench.records.record import Status


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "Python itself found no memory"),
        (torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB"), "CUDA out of memory."),
        # The CPU allocator of PyTorch has no exception of its own.
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"), "DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["python", "cuda", "cpu"],
)
def test_lack_of_memory_has_one_name_whoever_tells(error, said):
    with pytest.raises(OutOfMemory, match=said) as told, memory_told():
        raise error
    assert "\n" not in str(told.value)


def test_any_other_failure_stays_as_it_is():
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError) as told, memory_told():
        raise error
    assert told.value is error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OutOfMemory("can't allocate memory"), Status.OOM),
        # What the kernel's out-of-memory killer leaves.
        (TaskDied("killed", signal.SIGKILL), Status.OOM),
        (TaskDied("killed", signal.SIGSEGV), Status.ERROR),
        (TaskDied("the process exited with code 0"), Status.ERROR),
        (NormbenchError("ValueError: no"), Status.ERROR),
    ],
)
def test_status_of_a_failure(error, status):
    assert status_of(error) is status
