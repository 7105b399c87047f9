"""How much memory a measuring process may take, and what makes that limit hold."""

from __future__ import annotations

import ctypes
import platform
import re
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from ..errors import NormbenchError, UsageError
from ..host.machine import available_memory_bytes
from ..measure.pages import page_control_reason
from ..quantities.units import bytes_text

__all__ = ["Limit", "anonymous_bytes", "bytes_of", "choose_limit", "limited", "take_in_small_steps"]

MARGIN_BYTES, MARGIN_SHARE = 2**30, 1 / 8
"""What is left to the rest of the machine, the larger of the two, where no limit is given: the process that asks and the server it
forks from take half a GiB by themselves, and what others take may grow while a sweep goes on."""

_UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


_M_TOP_PAD = -2
"""malloc.h of glibc: what is taken from the kernel beyond what is asked for."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Say how many bytes a measuring process may take, None for all that its device has, and in words how that is made to hold."""

    limit_bytes: int | None
    words: str


def bytes_of(text: str) -> int:
    """Return the bytes of words such as 512MiB, 2GiB or 2000000. Raises UsageError for what is no amount of memory above 0."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    count = float(found[1]) * unit if found and unit else 0.0
    if not (isfinite(count) and 1 <= count < 2**62):
        raise UsageError(f"memory-limit {text!r} is no amount of memory: give one such as 512MiB or 2GiB")
    return int(count)


def choose_limit(asked_bytes: int | None, device: Mapping[str, Any], *, available_bytes: int | None = None) -> Limit:
    """Return the limit that holds on a device, described as `describe_device` does, where `asked_bytes` were asked for, None for none.

    `available_bytes` is what the machine has to give, looked up when not given. Raises UsageError where more is asked for than there
    is, and where no limit can be held.
    """
    if device["type"] == "cuda":
        return _cuda_limit(asked_bytes, int(device["memory_bytes"]), int(device["free_bytes"]))
    if platform.system() != "Linux":
        raise UsageError(
            f"no limit of memory can be held on {platform.system()}, and without one a sweep would use up the machine: use Linux"
        )
    available = available_memory_bytes() if available_bytes is None else available_bytes
    how = "for data on top of what it begins with, touched or not, held by the kernel (RLIMIT_DATA)"
    if asked_bytes is not None:
        if asked_bytes > available:
            raise UsageError(
                f"memory-limit {bytes_text(asked_bytes)} is more than the {bytes_text(available)} that are available: the kernel would "
                "kill processes, not necessarily this one; ask for less"
            )
        return Limit(limit_bytes=asked_bytes, words=f"a process may map {bytes_text(asked_bytes)} {how}, as was asked for")
    margin = max(MARGIN_BYTES, int(available * MARGIN_SHARE))
    if available <= margin:
        raise UsageError(
            f"{bytes_text(available)} of memory are available, no more than the margin of {bytes_text(margin)}: free some, or give "
            "--memory-limit"
        )
    left = f"the {bytes_text(available)} that were available but for a margin of {bytes_text(margin)}"
    return Limit(limit_bytes=available - margin, words=f"a process may map {bytes_text(available - margin)} {how}: {left}")


def _cuda_limit(asked_bytes: int | None, total_bytes: int, free_bytes: int) -> Limit:
    there = f"the device has {bytes_text(total_bytes)}, of which {bytes_text(free_bytes)} were free at the start"
    if asked_bytes is None:
        return Limit(limit_bytes=None, words=f"a process may take all memory of the device; {there}")
    if asked_bytes > total_bytes:
        raise UsageError(f"memory-limit {bytes_text(asked_bytes)} is more than the device's {bytes_text(total_bytes)}: ask for less")
    how = "held by PyTorch's caching allocator (set_per_process_memory_fraction), the CUDA context not counted"
    return Limit(limit_bytes=asked_bytes, words=f"a process may take {bytes_text(asked_bytes)} of memory, {how}; {there}")


@contextmanager
def limited(limit_bytes: int | None, device: str) -> Iterator[None]:
    """Have this process take so many bytes at most for the while, on top of those that it holds, and fail when it asks for more.

    On CPU the limit is on what is mapped for data, touched or not: torch's allocator then raises as it does where the machine has no
    more. On CUDA it is on what the caching allocator takes from the device. With None nothing is limited.
    """
    if limit_bytes is None:
        yield
        return
    if device.startswith("cuda"):
        import torch

        total_bytes = torch.cuda.get_device_properties(torch.device(device)).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total_bytes), torch.device(device))
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _status_bytes("VmData") + limit_bytes
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise NormbenchError(f"the system's own limit of a process's data is {bytes_text(hard)} (ulimit -d), less than is needed: raise it")
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        # What failed for lack of memory must still be told.
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def take_in_small_steps() -> None:
    """Have the allocator take no more from the kernel than it is asked for; to be called after the page state is set, which it keeps.

    With 64 MiB more each time the last step before the limit fails, and what follows comes from arenas that give their pages back
    after every call: within 64 MiB of a limit of 256, gpt2-tiny lost a fifth of its tokens per second to that in training, and two
    fifths in decoding.
    """
    if page_control_reason() is None and ctypes.CDLL(None).mallopt(_M_TOP_PAD, 0) != 1:
        raise NormbenchError("mallopt(M_TOP_PAD, 0) was refused: a limit of memory cannot be met to the byte here")


def anonymous_bytes() -> int:
    """Return the memory that this process holds and no file stands behind: what is taken by data, and has been touched."""
    return _status_bytes("RssAnon")


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise NormbenchError(f"/proc/self/status has no {field}: this kernel does not say how much memory a process holds")
