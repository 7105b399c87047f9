"""Decide how many threads this process may use, and set PyTorch's number for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError
from .cgroup import cpu_quota

__all__ = ["affinity", "available_cores", "set_threads", "validate_threads"]


def affinity() -> list[int] | None:
    """Return the numbers of the CPUs this process may run on, or None where the system does not tell (macOS, Windows)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def available_cores(root: Path = Path("/")) -> int:
    """Return how many threads can run at once without being stopped: the affinity mask, capped by the cgroup's CPU quota.

    A quota of 2.5 CPUs gives 2: three threads would use it up before each period ends and all wait for the next. More threads than
    quota have been seen to cost a factor of 45 (ollama/ollama#17916, pytorch/pytorch#193859). `root` is where /proc and /sys lie.
    """
    allowed = affinity()
    cores = len(allowed) if allowed is not None else os.cpu_count() or 1
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, int(quota)))


def validate_threads(threads: int, root: Path = Path("/")) -> None:
    """Raise UsageError for fewer than one thread, or more than this process may run at once."""
    if threads < 1:
        raise UsageError(f"threads {threads} is less than 1")
    cores = available_cores(root)
    if threads > cores:
        allowed, quota = affinity(), cpu_quota(root)
        mask = f"its affinity mask has {len(allowed)} CPUs" if allowed is not None else f"the machine has {os.cpu_count()} CPUs"
        limit = "there is no CPU quota" if quota is None else f"its CPU quota is {quota:g}"
        raise UsageError(
            f"threads {threads} is more than the {cores} this process may run at once ({mask}, {limit}): ask for at most {cores}"
        )


@contextmanager
def set_threads(threads: int) -> Iterator[None]:
    """Run the block with PyTorch's intra-op thread number set, then restore it. Raises UsageError like `validate_threads`."""
    import torch

    validate_threads(threads)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
