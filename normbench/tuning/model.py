"""What machine code tells of a launch: how much slower than the memory floor it must be, and why. Pure.

Three bounds, each as a multiple of the time in which the fewest bytes cross the memory bus (`traffic.bytes_moved`):

    traffic     bytes read and written, second reads and partial sums included, over the fewest
    latency     traffic times (bytes that must be in flight) / (bytes of tiles that resident programs have in flight), if above 1
    issue       cycles of the multiprocessor's four schedulers for the kernel's instructions, over those of the floor; a warp waits 4
                cycles for each instruction (Jia et al., "Dissecting the NVIDIA Volta GPU architecture", 2018, section 4.1), so that
                fewer than four warps a scheduler do not keep it busy

The largest is the estimate, as in a roofline (Williams et al., 2009). Latency is Little's law: in flight = bandwidth x latency (Volkov,
"Understanding latency hiding on GPUs", 2016, chapter 4). Barriers, the last wave of programs and the first-level cache are not in it:
it rules out and ranks, and a device decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..cases.case import Case, Pass
from ..inspection.figures import Figures, share_of_vectors
from .candidates import Candidate
from .devices import Device

__all__ = ["Bound", "Estimate", "estimate", "resident_by_code"]

WARP = 32
REGISTER_UNIT = 256
"""Registers are handed out to a warp in units of 256, and warps to a multiprocessor's four schedulers alike (CUDA Occupancy
Calculator, compute capability 8.0 to 12.0)."""
SCHEDULERS = 4
DEPENDENT_CYCLES = 4
"""From one arithmetic instruction of a warp to the next that needs its result."""
RESERVED_SHARED_BYTES = 1024
"""Of each program, for the system (CUDA C++ Programming Guide, section on compute capability 8.x and later)."""
PARTIAL_BYTES = 8
"""A partial sum is a float32, written and read."""


class Bound(StrEnum):
    """Name what a launch waits for."""

    TRAFFIC = "traffic"
    LATENCY = "latency"
    ISSUE = "issue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Hold what the machine code of one launch tells on one device.

    `traffic`, `latency` and `issue` are multiples of the memory floor. Resident programs and warps, and bytes of tiles in flight, are of
    one multiprocessor; instructions are per element and thread of it. `vectors` is the share of global accesses of 128 bits or more.
    `broken` holds the budgets that the code breaks, in words.
    """

    registers: int
    stack_bytes: int
    vectors: float | None
    instructions_per_element: float
    resident_programs: float
    resident_warps: float
    in_flight_bytes: float
    traffic: float
    latency: float
    issue: float
    broken: tuple[str, ...]

    @property
    def slowdown(self) -> float:
        """Return the largest bound: how many times the memory floor the kernel takes at least."""
        return max(self.traffic, self.latency, self.issue)

    @property
    def bound(self) -> Bound:
        """Return what the largest bound is; traffic where latency is hidden and adds nothing to it."""
        if self.issue > max(self.traffic, self.latency):
            return Bound.ISSUE
        return Bound.LATENCY if self.latency > self.traffic else Bound.TRAFFIC


def resident_by_code(figures: Figures, device: Device) -> int:
    """Return how many programs fit on a multiprocessor by warps, registers and shared memory; 0 where none does."""
    warps = -(-figures.threads // WARP)
    of_a_warp = -(-figures.registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = device.registers // SCHEDULERS // max(of_a_warp, 1) * SCHEDULERS
    by_shared = device.shared_bytes // (figures.shared_bytes + RESERVED_SHARED_BYTES)
    return min(device.programs, min(device.warps, by_registers) // warps, by_shared)


def estimate(candidate: Candidate, case: Case, figures: Figures, device: Device, broken: Sequence[str]) -> Estimate:
    """Return what the figures of a candidate, compiled for a case, tell of it on a device with the rows of the case."""
    reads = (2 if candidate.direction is Pass.BACKWARD else 1) + case.residual
    writes = 1 + (case.residual and candidate.direction is Pass.FORWARD)
    itemsize = case.dtype.itemsize
    programs = candidate.programs(case.rows, case.cols, device.multiprocessors)
    resident = min(resident_by_code(figures, device), programs / device.multiprocessors)
    # Of a row that takes several steps, the last one may be less than whole.
    elements = candidate.block_rows * case.cols / -(-case.cols // candidate.block_cols)
    in_flight_bytes = resident * elements * reads * itemsize
    traffic = 1.0 + _more_bytes(candidate, case, resident, device, reads) / ((reads + writes) * itemsize)
    instructions = figures.instructions * figures.threads / elements
    floor_s = (reads + writes) * itemsize * device.multiprocessors / device.bandwidth_bytes_per_s
    resident_warps = resident * figures.threads / WARP
    busy = min(1.0, resident_warps / SCHEDULERS / DEPENDENT_CYCLES)
    issue_s = instructions / (SCHEDULERS * WARP * device.clock_hz * busy) if busy else float("inf")
    counts = [*figures.loads.items(), *figures.stores.items()]
    return Estimate(
        registers=figures.registers,
        stack_bytes=figures.stack_bytes,
        vectors=share_of_vectors({bits: sum(number for width, number in counts if width == bits) for bits, _ in counts}),
        instructions_per_element=instructions,
        resident_programs=resident,
        resident_warps=resident_warps,
        in_flight_bytes=in_flight_bytes,
        traffic=traffic,
        latency=traffic * device.in_flight_bytes / in_flight_bytes if in_flight_bytes else float("inf"),
        issue=issue_s / floor_s,
        broken=tuple(broken),
    )


def _more_bytes(candidate: Candidate, case: Case, resident: float, device: Device, reads: int) -> float:
    """Return the bytes per element that are moved beyond the fewest: second reads that miss the cache, and partial sums."""
    itemsize = case.dtype.itemsize
    is_partial = candidate.is_partial(case.cols)
    if candidate.direction is Pass.FORWARD:
        if not is_partial:
            return 0.0
        rows_at_work = resident * device.multiprocessors * candidate.block_rows
        # Half of the cache holds what the other half's multiprocessors read (NVIDIA A100 architecture paper, "L2 cache").
        kept = device.l2_bytes / 2 / max(rows_at_work * case.cols * reads * itemsize, 1)
        return max(0.0, 1 - kept) * reads * itemsize
    groups = candidate.backward_launch(case.rows, case.cols, device.multiprocessors).groups
    partials = groups * PARTIAL_BYTES * (1 + case.bias) / case.rows
    # The kernel of the row means has read all rows before the first of them is read again.
    return partials + (2 * itemsize if is_partial else 0)
