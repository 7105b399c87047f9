"""Empty the last-level cache between calls, so that `cold` means what it says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["cache_bytes", "last_level_bytes", "make_flush"]

_FALLBACK_BYTES = 64 * 1024 * 1024
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


def cache_bytes(root: Path = Path("/")) -> dict[int, int]:
    """Return the sizes in bytes of the CPU's caches of data by their level, as far as the system says. `root` is where /sys lies."""
    return {level: size for level, size, _ in _caches(root, 0)}


def _caches(root: Path, cpu: int) -> list[tuple[int, int, str]]:
    """Return level, size in bytes and the CPUs that share it, of each cache of a CPU that holds data."""
    found = []
    for entry in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
        with suppress(OSError, ValueError, KeyError):
            level, kind, size = ((entry / name).read_text().strip() for name in ("level", "type", "size"))
            if kind in ("Unified", "Data"):
                shared = entry / "shared_cpu_list"
                found.append((int(level), int(size[:-1]) * _UNITS[size[-1:]], shared.read_text().strip() if shared.exists() else ""))
    return found


def last_level_bytes(root: Path = Path("/"), *, cpus: Iterable[int] = (0,), threads: int = 1) -> int:
    """Return the size in bytes of the largest caches that so many threads on these CPUs fill; 64 MiB where the system does not say.

    A processor may have a last-level cache for every few of its cores, and a tensor then lies in those of all threads that work on it.
    """
    largest: dict[str, int] = {}
    for cpu in cpus:
        caches = _caches(root, cpu)
        if caches:
            _, size, shared = max(caches)
            largest[shared] = size
    return sum(sorted(largest.values(), reverse=True)[:threads]) or _FALLBACK_BYTES


def make_flush(device: Any) -> Callable[[], Any]:
    """Return a function that writes twice the last-level caches that this process's threads fill, on CUDA the device's L2."""
    import torch

    if torch.device(device).type == "cuda":
        size = torch.cuda.get_device_properties(device).L2_cache_size
    else:
        size = last_level_bytes(cpus=os.sched_getaffinity(0), threads=torch.get_num_threads())
    buffer = torch.zeros(2 * max(size, 1), dtype=torch.uint8, device=device)
    return lambda: buffer.add_(1)
