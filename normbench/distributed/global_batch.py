"""What several processes can train at all, and how a global batch is split over them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..cases.conditions import Cache, Pages
from ..cases.throughput_case import Mode, ThroughputCase
from ..cases.tiers import AnyCase
from ..errors import UsageError

__all__ = ["refuse_processes", "split_global_batch"]


def refuse_processes(processes: int, cases: Sequence[AnyCase], *, device: str, caches: Sequence[Cache], pages: Sequence[Pages]) -> None:
    """Raise UsageError for what cannot be measured with so many processes."""
    _refuse_none(processes)
    for case in cases:
        if not isinstance(case, ThroughputCase) or case.mode is not Mode.TRAIN:
            raise UsageError(f"nproc {processes}: {case.id} is no training; only --tier throughput --mode train has several processes")
    if tuple(caches) != (Cache.WARM,) or tuple(pages) != (Pages.REUSED,):
        raise UsageError(f"nproc {processes}: processes that train together are measured with cache warm and pages reused alone")
    if device not in ("cpu", "cuda"):
        raise UsageError(f"nproc {processes}: device {device!r} is a single one; name cuda, of which each process takes its own")


def split_global_batch(global_batch: int, processes: int, batches: Sequence[int], accumulation: int) -> tuple[int, int]:
    """Return the sequences of a microbatch and the microbatches of each process that make up a global batch.

    Global batch = processes x microbatches x sequences of a microbatch. `batches` holds the batch that was asked for, if any, and an
    `accumulation` of 1 stands for none typed: of the two what is not given follows. Raises UsageError naming what does not divide.
    """
    _refuse_none(processes)
    if global_batch < 1:
        raise UsageError(f"global-batch {global_batch} is less than 1")
    if len(batches) > 1:
        raise UsageError(f"global-batch {global_batch} and batch {','.join(map(str, batches))}: give one batch, or none")
    each, rest = divmod(global_batch, processes)
    if rest:
        raise UsageError(
            f"global-batch {global_batch} cannot be split over {processes} processes: {global_batch} is not a multiple of {processes}"
        )
    if not batches:
        batch, rest = divmod(each, accumulation)
        if rest:
            raise UsageError(
                f"global-batch {global_batch} cannot be split over {processes} processes of {accumulation} microbatches each: "
                f"{global_batch} is not a multiple of {processes * accumulation}"
            )
        return batch, accumulation
    (batch,) = batches
    counted, rest = divmod(each, batch)
    if rest or accumulation not in (1, counted):
        raise UsageError(
            f"global-batch {global_batch} is not {processes} processes x "
            + (f"accumulation {accumulation} x " if accumulation > 1 else "some microbatches x ")
            + f"batch {batch}"
        )
    return batch, counted


def _refuse_none(processes: int) -> None:
    if processes < 1:
        raise UsageError(f"nproc {processes} is less than 1")
