"""Read what the kernel's control groups grant this process: CPU quota and memory, of version 1 and version 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["cpu_quota", "memory_headroom_bytes", "memory_limit_bytes"]

# Version 1 writes "no limit" as the largest multiple of a page that fits 63 bits.
_UNLIMITED_BYTES = 2**62


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return how many CPUs' worth of time the process may use, or None without a quota.

    The tightest of the process's own group and all groups above it: cpu.max (version 2), cpu.cfs_quota_us over cpu.cfs_period_us
    (version 1). `root` is where /proc and /sys lie.
    """
    pairs = [_read(folder / "cpu.max").partition(" ")[::2] for folder in _folders(root, None)]
    pairs += [(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")) for folder in _folders(root, "cpu")]
    return min((found for quota, period in pairs if (found := _quotient(quota, period)) is not None), default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Return the tightest memory limit of the process's group and all groups above it in bytes, or None without one."""
    return min((limit for limit, _ in _memory(root)), default=None)


def memory_headroom_bytes(root: Path = Path("/")) -> int | None:
    """Return how much more memory the tightest of these groups grants in bytes, or None without a limit.

    Usage counts without the inactive file cache, which the kernel gives up before it kills.
    """
    return min((max(0, limit - used) for limit, used in _memory(root)), default=None)


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and usage in bytes of each group that has a limit."""
    versions = (
        (None, "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
    for controller, limit_file, usage_file, cache_key in versions:
        for folder in _folders(root, controller):
            limit = _integer(_read(folder / limit_file))
            if limit is not None and limit < _UNLIMITED_BYTES:
                stat = dict(line.partition(" ")[::2] for line in _read(folder / "memory.stat").splitlines())
                cache = _integer(stat.get(cache_key, "")) or 0
                yield limit, max(0, (_integer(_read(folder / usage_file)) or 0) - cache)


def _folders(root: Path, controller: str | None) -> Iterator[Path]:
    """Yield the process's folder of a version 1 controller, or of version 2 for None, and every folder above up to the mount."""
    mount = _mount(root, controller)
    if mount is None:
        return
    mounted, point = mount
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, group = line.split(":", 2)
        if (controller in controllers.split(",")) if controller else (number == "0" and not controllers):
            break
    else:
        return
    # A container often sees only its own part of the tree mounted, while the path it is told begins at the host's root.
    inside = Path(group).parts[1:]
    above = Path(mounted).parts[1:]
    relative = inside[len(above) :] if inside[: len(above)] == above else ()
    for depth in range(len(relative), -1, -1):
        yield point.joinpath(*relative[:depth])


def _mount(root: Path, controller: str | None) -> tuple[str, Path] | None:
    """Return which part of the group tree is mounted, and where."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind == "cgroup2" if controller is None else kind == "cgroup" and controller in options.split(" ")[-1].split(","):
            fields = before.split(" ")
            return fields[3], root / fields[4].lstrip("/")
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _integer(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _quotient(quota: str, period: str) -> float | None:
    # "max" and -1 mean no quota; a group without the file has none either.
    quota_us, period_us = _integer(quota), _integer(period)
    return quota_us / period_us if quota_us and period_us else None
