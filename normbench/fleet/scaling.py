"""What running beyond one process costs: `python -m normbench.fleet.scaling`.

Real are Ray, its raylets and actors, the loop that feeds them, and the run on disk. The work is not: a node answers each group with a
record that says `skipped`, after a pause that stands for measuring.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from ..cases.case import Case
from ..host.machine import machine_record, package_versions
from ..job.request import Request
from ..job.run import create_run, unmeasured_records
from ..measure.group import Group
from ..records.measurement import Block, Measurement, StopReason
from ..records.record import Record, Status
from ..screen.terminal import console
from ..storage.lines import RECORDS
from .conduct import execute_on
from .dispatch import Measured, dispatch
from .machines import machine_name
from .merge import merge_runs
from .ray_cluster import RayCluster
from .station import Introduction, Order, Results, software

__all__ = ["IdleStation", "main", "request_of"]

PAUSE_S = 0.01
"""What stands for measuring one group: enough to see whether two nodes share it, little beside the seconds that a real one takes."""

_BATCH = 100
_TURNS = 20
_STORE_BYTES = 80 * 2**20
_REASON = "nothing is measured: this is what everything else costs"


class IdleStation:
    """Stand on a node where a `Station` does, and measure nothing."""

    def __init__(self, order: Order, node: str) -> None:
        self._order = order
        self._node = node

    def open(self) -> Introduction:
        """Return what the node says of itself."""
        machine, versions = machine_record(), package_versions()
        self._name = machine_name(machine, versions)
        return Introduction(name=self._name, machine=machine, versions=versions, software=software(self._order))

    def measure(self, groups: Sequence[Group]) -> Results:
        """Return a record for each arm, `PAUSE_S` for each group later."""
        time.sleep(PAUSE_S * len(groups))
        return [(group, [self._signed(record) for record in _records(group)]) for group in groups]

    def _signed(self, record: Record) -> Record:
        return msgspec.structs.replace(record, machine=self._name, node=self._node)


class _Here:
    """Be a cluster of one seat in this process: what is left is the loop and the run on disk."""

    def __init__(self) -> None:
        self._task: Sequence[Group] | None = None

    def free_seats(self) -> list[str]:
        return ["here"]

    def is_hopeful(self) -> bool:
        return False

    def start(self, seat: str, groups: Sequence[Group]) -> None:
        self._task = groups

    def wait(self, timeout_s: float) -> Iterable[Measured]:
        assert self._task is not None
        return [Measured(seat="here", results=[(group, _records(group)) for group in self._task])]


def _records(group: Group) -> list[Record]:
    return unmeasured_records(group, Status.SKIPPED, _REASON, seed=0)


def request_of(count: int, root: str) -> Request:
    """Return a request of so many groups of one provider, each of a shape of its own."""
    cases = tuple(Case.make("rms_norm", "forward", (number + 1, 64), "float32") for number in range(count))
    return Request(label=f"scaling-{count}", cases=cases, providers=("aten",), threads=1, root=root)


def _wall_s(count: int, workers: int) -> float:
    """Return how long a run of so many groups takes on a Ray cluster of so many nodes on this machine, the cluster's start left out."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    kind = importlib.import_module("ray.cluster_utils").Cluster
    node = {"num_cpus": 1, "object_store_memory": _STORE_BYTES}
    cluster = kind(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(workers - 1):
            cluster.add_node(**node)
        with tempfile.TemporaryDirectory() as root:
            start = time.perf_counter()
            request = request_of(count, root)
            execute_on(lambda: RayCluster(request, cluster.address, folder=root, station=IdleStation), request)
            return time.perf_counter() - start
    finally:
        cluster.shutdown()


def _driver_s(count: int) -> float:
    """Return what the loop and the run on disk take for one record, in seconds."""
    with tempfile.TemporaryDirectory() as root:
        request = request_of(count, root)
        groups = request.groups()
        with create_run(request, groups, device={"type": "cpu"}) as writer:
            start = time.perf_counter()
            dispatch(
                [[group] for group in groups],
                _Here(),
                most=1,
                on_start=lambda seat, groups: None,
                on_done=lambda group, records: writer.append(*records),
                on_failed=lambda seat, group, reason: None,
            )
            return (time.perf_counter() - start) / count


def _growth_bytes(before: int) -> int:
    """Return by how much this process's peak of resident memory has grown; `before` is what `_peak_bytes` said."""
    return _peak_bytes() - before


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _write(root: str, numbers: range) -> Path:
    """Write a run of made-up records, each with samples and of a shape of its own, a batch at a time."""
    request = request_of(1, root)
    block = Block(started_at=0.0, inner=1, samples_s=((1e-6,) * _TURNS,) * 2)
    measurement = Measurement(timer="made up", blocks=(block,) * 5, stop=StopReason.BLOCKS)
    with create_run(request, (), device={"type": "cpu"}) as writer:
        for start in range(0, len(numbers), _BATCH):
            batch: list[Record] = []
            for number in numbers[start : start + _BATCH]:
                case = Case.make("rms_norm", "forward", (number + 1, 64), "float32")
                (record,) = _records(Group.of([case], request.conditions()[0], ["aten"]))
                batch.append(msgspec.structs.replace(record, case=case, status=Status.OK, reason=None, measurement=measurement))
            writer.append(*batch)
    return writer.path


def _memory(count: int) -> list[tuple[str, float, int, int]]:
    """Return what writing and joining so many records does: seconds, bytes on disk, and growth of the peak of memory in bytes.

    Joining comes second in this process, so its growth is what it needs beyond what writing had needed at most.
    """
    with tempfile.TemporaryDirectory() as root:
        found = []
        before, start = _peak_bytes(), time.perf_counter()
        paths = [_write(root, range(count // 2)), _write(root, range(count // 2, count))]
        size = sum((path / RECORDS).stat().st_size for path in paths)
        found.append(("RunWriter", time.perf_counter() - start, size, _growth_bytes(before)))
        before, start = _peak_bytes(), time.perf_counter()
        merged = merge_runs(paths, root=root)
        found.append(("merge", time.perf_counter() - start, (merged / RECORDS).stat().st_size, _growth_bytes(before)))
        return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description="What running beyond one process costs.")
    parser.add_argument("--groups", default="10,100,1000", help="Sizes of grids, comma-separated.")
    parser.add_argument("--workers", default="1,2", help="Numbers of Ray nodes on this machine; empty for none.")
    parser.add_argument("--records", type=int, default=100_000, help="Records that are written and joined.")
    options = parser.parse_args(arguments)
    paper = console(120)
    sizes = [int(word) for word in options.groups.split(",") if word]
    workers = [int(word) for word in options.workers.split(",") if word]
    # First, while this process has held nothing else: a peak never falls.
    memory = _memory(options.records)
    table = Table("groups", "driver, µs per record", *(f"Ray, {count} node{'s' * (count > 1)}, s" for count in workers), box=None)
    for size in sizes:
        cells = [f"{_wall_s(size, count):.2f}" for count in workers]
        table.add_row(str(size), f"{1e6 * _driver_s(size):.0f}", *cells)
    paper.print(table)
    paper.print(f"Each group stands for {1e3 * PAUSE_S:g} ms of measuring on its node; the cluster's own start is left out.")
    table = Table(f"{options.records} records", "s", "MB on disk", "growth of peak memory, MB", box=None)
    for name, seconds, size, growth in memory:
        table.add_row(name, f"{seconds:.1f}", f"{size / 1e6:.0f}", f"{growth / 1e6:.0f}")
    paper.print(table)


if __name__ == "__main__":
    main()
