"""Under which circumstances a case is run (`Conditions`): device, threads, cache, pages, processes. Pure: imports no torch."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["Cache", "Conditions", "Pages", "Parallel"]


class Cache(StrEnum):
    """Say what the last-level cache holds when a call begins: the case's own tensors, or none of them."""

    WARM = "warm"
    COLD = "cold"


class Pages(StrEnum):
    """Say where the memory of a call's outputs comes from: pages the allocator kept, or new ones from the kernel."""

    REUSED = "reused"
    FRESH = "fresh"


class Parallel(StrEnum):
    """Say how processes train one network together: each holds all of it (DDP), or a shard of every parameter (FSDP)."""

    DDP = "ddp"
    FSDP = "fsdp"


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Say where and how a case is run. Records that differ in any field are never compared.

    Of several `processes`, which train together as `parallel` says, each has `threads` and takes a case of its own: the size of a
    case is that of one process.
    """

    device: str
    threads: int
    cache: Cache = Cache.WARM
    pages: Pages = Pages.REUSED
    processes: int = 1
    parallel: Parallel | None = None

    @property
    def id(self) -> str:
        """Return the id, e.g. `cpu/2t/warm/reused`, or `cpu/1t/warm/reused/2p-ddp` of two processes."""
        alone = f"{self.device}/{self.threads}t/{self.cache.value}/{self.pages.value}"
        if self.processes == 1 and self.parallel is None:
            return alone
        return f"{alone}/{self.processes}p" + (f"-{self.parallel.value}" if self.parallel is not None else "")
