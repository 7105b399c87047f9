"""What measuring yields: samples of processes, memory, a sustained run, and what several processes took together. Pure."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["UNHELD", "Block", "Measurement", "Memory", "Ranks", "StopReason", "Sustained"]

UNHELD = "cuda_event, not held back"
"""Name of the clock of calls whose launching takes too long to be waited for: it is part of their time."""


class StopReason(StrEnum):
    """Say why measuring ended: the interval was narrow enough, the budget was spent, or all planned blocks were done."""

    NARROW = "narrow"
    BUDGET = "budget"
    BLOCKS = "blocks"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Hold bytes of one call: the peak above the inputs, and what autograd saves for backward. Null comes with `reason`."""

    peak_bytes: int | None = None
    saved_bytes: int | None = None
    reason: str | None = None


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the raw samples of one process: `samples_s[repetition][turn]`, seconds per call of device time (wall time on CPU).

    Sample k of repetition r belongs to the same turn for every provider of the group. `inner` calls make one sample. `host_s` has
    the same form and holds the time the host spent launching (CUDA only). `page_faults_per_call` counts minor faults (CPU only).
    `others_cpu_share` is the share of the usable cores that other processes and the hypervisor took meanwhile; null where unknown.
    """

    started_at: float
    inner: int
    samples_s: tuple[tuple[float, ...], ...]
    host_s: tuple[tuple[float, ...], ...] | None = None
    page_faults_per_call: float | None = None
    others_cpu_share: float | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Hold all samples of one (case, provider) and how they were taken. Statistics are derived, see `stats.py`."""

    timer: str
    blocks: tuple[Block, ...]
    stop: StopReason


class Sustained(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one arm did when it was called again and again by itself for a while: what it cost, and how the device bore it.

    `calls` were made in `duration_s` seconds. `energy_j` is the difference of the counter named by `energy_source`, whatever else drew
    power meanwhile. `series` has, by name, one value per moment in `at_s` (seconds since the start), null where nothing could be read
    then: `calls` made so far, `ended_s`, when the last of them did (seconds since the first began), `clock_mhz` (of the GPU, or the
    median of the cores), `temperature_c`, `power_w`. A figure that is null everywhere is left out and has its reason in `reasons`,
    `energy_j` among them. `throttled` says why the device slowed itself down, `slowdowns` why at each moment, null for nothing; empty
    where that cannot be read.
    """

    duration_s: float
    calls: int
    energy_j: float | None = None
    energy_source: str | None = None
    at_s: tuple[float, ...] = ()
    series: dict[str, tuple[float | None, ...]] = {}
    throttled: str | None = None
    slowdowns: tuple[str | None, ...] = ()
    reasons: dict[str, str] = {}


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what processes took that trained together: each by itself, and one of them alone.

    `each` has a measurement per rank, in step with the record's own, which holds the slowest rank of every sample. `alone` took turns
    with them: rank 0 training the same batch of one rank, without the others. `cores` is what all ranks together could use.
    """

    each: tuple[Measurement, ...]
    alone: Measurement
    cores: int
