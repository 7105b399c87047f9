"""The processes that train together, from inside one of them: how they find each other, wait for each other, and lose each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import torch
import torch.distributed as dist

from ..cases.conditions import Conditions, Pages, Parallel
from ..cases.tiers import AnyCase
from ..measure.process import first_line, memory_told, prepare_process
from .failure import PeerLost
from .position import PositionWriter

__all__ = ["Seat", "Session", "count_gpus", "guarded", "joined", "prepare_rank"]

_LONGER_S = 60.0
"""How much longer than a rank may be silent a collective waits: the process that hangs is to be told before all others give up."""

_T = TypeVar("_T")


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """Say which rank a task is, of how many, where they meet, and for the how many-th time."""

    rank: int
    size: int
    folder: str
    task: int
    timeout_s: float
    parallel: Parallel


class Session:
    """Hold what a process of several needs of the others."""

    def __init__(self, seat: Seat, device: torch.device, position: PositionWriter, control: Any) -> None:
        self.seat = seat
        self.device = device
        self.position = position
        self._control = control

    @property
    def is_first(self) -> bool:
        return self.seat.rank == 0

    def wait(self) -> None:
        """Wait until every rank is here."""
        dist.barrier(group=self._control)

    def told(self, value: _T | None) -> _T:
        """Return what rank 0 gives, on every rank."""
        holder = [value]
        dist.broadcast_object_list(holder, src=0, group=self._control)
        assert holder[0] is not None
        return holder[0]


def prepare_rank(seat: Seat, conditions: Conditions, case: AnyCase) -> torch.device:
    """Set this process up as the conditions say and return its device; of several GPUs each rank has its own."""
    if conditions.device == "cuda":
        torch.cuda.set_device(seat.rank)
        conditions = msgspec.structs.replace(conditions, device=f"cuda:{seat.rank}")
    device: torch.device = prepare_process(conditions, case, Pages.REUSED)
    return device


@contextmanager
def joined(seat: Seat, device: torch.device) -> Iterator[Session]:
    """Join the other ranks: gloo on the CPU, NCCL on GPUs with gloo for waiting, so that no GPU computes what a process waits for."""
    position = PositionWriter(seat.folder, seat.rank, seat.task, seat.timeout_s)
    is_cuda = device.type == "cuda"
    limit = timedelta(seconds=seat.timeout_s + _LONGER_S)
    dist.init_process_group(
        "nccl" if is_cuda else "gloo",
        store=dist.FileStore(  # type: ignore[attr-defined]
            f"{seat.folder}/meeting-{seat.task}", seat.size
        ),
        rank=seat.rank,
        world_size=seat.size,
        timeout=limit,
        device_id=device if is_cuda else None,
    )
    control = dist.new_group(backend="gloo", timeout=limit) if is_cuda else None
    yield Session(seat, device, position, control)
    dist.destroy_process_group()


def guarded(task: Callable[[], None]) -> None:
    """Run a task's work. Raises OutOfMemory where memory ran out, PeerLost where another rank went away."""
    try:
        with memory_told():
            task()
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error) or "Connection" in str(error):
            raise PeerLost(first_line(error)) from error
        raise


def count_gpus(_: None, emit: Callable[[Any], None]) -> None:
    """Emit how many GPUs this process may use."""
    emit(torch.cuda.device_count())
