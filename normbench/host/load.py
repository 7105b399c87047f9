"""How much of the machine others used while something was timed: a busy machine is the first suspect for a wide interval."""

from __future__ import annotations

import os
import time

import psutil

from .threads import affinity

__all__ = ["OtherLoad"]


class OtherLoad:
    """Measure the CPU time that other processes, and the hypervisor (steal), took on this process's CPUs since it was made."""

    def __init__(self) -> None:
        self._start = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float]:
        per_cpu = psutil.cpu_times(percpu=True)
        ours = affinity() or range(len(per_cpu))
        # guest time is contained in user time, so it is not added again.
        busy = sum(
            cpu.user + cpu.system + sum(getattr(cpu, name, 0.0) for name in ("nice", "irq", "softirq", "steal"))
            for cpu in (per_cpu[number] for number in ours)
        )
        own = os.times()
        return time.monotonic(), busy, own.user + own.system

    def share(self) -> float | None:
        """Return the share of the usable CPUs taken by others, from 0 to 1; None when too little time passed to tell."""
        wall_s, busy_s, own_s = (now - then for now, then in zip(self._read(), self._start, strict=True))
        # The kernel counts in hundredths of a second: under a quarter of one second the share is mostly rounding.
        if wall_s < 0.25:
            return None
        return min(1.0, max(0.0, (busy_s - own_s) / (wall_s * len(affinity() or psutil.cpu_times(percpu=True)))))
