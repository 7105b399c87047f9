"""The model's bounds, worked out by hand for devices and kernels simple enough to."""

from dataclasses import replace

import pytest
from inspection.handmade import figures

from normbench.cases.case import Case, Pass
from normbench.errors import UsageError
from normbench.inspection.budget import WARP
from normbench.inspection.devices import limits_of
from normbench.tuning.candidates import Candidate
from normbench.tuning.devices import DEVICES, Device, device_of
from normbench.tuning.model import Bound, estimate, resident_by_code

KIB = 1024
# One byte a nanosecond and multiprocessor, and one cycle a nanosecond.
DEVICE = Device(
    name="made up",
    multiprocessors=10,
    bandwidth_bytes_per_s=10e9,
    clock_hz=1e9,
    l2_bytes=8 * KIB * KIB,
    shared_bytes=228 * KIB,
    in_flight_bytes=32 * KIB,
)


def case_of(pass_="forward", *, rows=10_000, cols=1024, dtype="bfloat16", norm="rms_norm", residual=False):
    return Case.make(norm, pass_, (rows, cols), dtype, residual=residual)


def forward(**changes):
    sound = {"direction": Pass.FORWARD, "block_rows": 1, "block_cols": 1024, "num_warps": 4, "max_registers": None}
    return Candidate(**(sound | changes))


def backward(**changes):
    sound = {"direction": Pass.BACKWARD, "block_rows": 1, "block_cols": 1024, "num_warps": 4, "max_registers": 128, "resident_programs": 4}
    return Candidate(**(sound | changes))


@pytest.mark.parametrize(
    ("changes", "programs"),
    [
        pytest.param({"registers": 16, "shared_bytes": 0}, 16, id="64 warps"),
        pytest.param({"registers": 16, "shared_bytes": 0, "threads": 32}, 32, id="32 programs"),
        pytest.param({"registers": 40, "shared_bytes": 0}, 12, id="1280 registers a warp, 12 warps a scheduler"),
        pytest.param({"registers": 41, "shared_bytes": 0}, 10, id="registers come in eights: 1536 a warp, 10 warps a scheduler"),
        pytest.param({"registers": 128, "shared_bytes": 0}, 4, id="16384 registers a program"),
        pytest.param({"registers": 16, "shared_bytes": 75 * KIB}, 3, id="shared memory, with a KiB of the system's for each"),
        pytest.param({"registers": 255, "shared_bytes": 0, "threads": 1024}, 0, id="a program that does not fit"),
    ],
)
def test_resident_programs_are_the_fewest_of_four_limits(changes, programs):
    assert resident_by_code(figures(**changes), DEVICE) == programs


@pytest.mark.parametrize("arch", DEVICES)
def test_a_device_holds_what_its_largest_program_may_take(arch):
    device, limits = DEVICES[arch], limits_of(arch)
    largest = figures(registers=64, threads=limits.threads, shared_bytes=limits.shared_bytes)
    assert resident_by_code(largest, device) == 1
    assert device.registers == limits.registers
    assert device.warps * WARP >= limits.threads


def test_latency_is_what_is_missing_in_flight():
    # 4 programs of 4096 bytes each, of 32 KiB.
    found = estimate(forward(block_rows=2), case_of(), figures(registers=128), DEVICE, ())
    assert found.resident_programs == 4
    assert found.in_flight_bytes == 4 * 2 * 1024 * 2
    assert (found.latency, found.traffic, found.bound) == (2.0, 1.0, Bound.LATENCY)
    assert found.slowdown == 2.0


def test_a_residual_is_in_flight_too():
    plain, added = (estimate(forward(), case_of(residual=one), figures(), DEVICE, ()) for one in (False, True))
    assert added.in_flight_bytes == 2 * plain.in_flight_bytes


def test_lanes_past_the_end_of_a_row_bring_nothing():
    whole, half = (estimate(forward(), case_of(cols=cols), figures(), DEVICE, ()) for cols in (1024, 512))
    assert half.in_flight_bytes == whole.in_flight_bytes / 2
    assert half.instructions_per_element == 2 * whole.instructions_per_element


def test_no_more_programs_are_resident_than_are_launched():
    assert estimate(forward(), case_of(rows=5), figures(), DEVICE, ()).resident_programs == 0.5
    assert estimate(backward(resident_programs=2), case_of("backward"), figures(), DEVICE, ()).resident_programs == 2


def test_issue_is_instructions_over_what_four_schedulers_do_meanwhile():
    # 100 instructions of 128 threads for 1024 elements of 4 bytes in 4 ns each: 12.5 of the 512 that are issued in that time.
    found = estimate(forward(), case_of(), figures(registers=32), DEVICE, ())
    assert found.resident_warps == 64
    assert found.instructions_per_element == 12.5
    assert found.issue == pytest.approx(12.5 / 512)


def test_too_few_warps_do_not_keep_a_scheduler_busy():
    # 8 warps on four schedulers, each of which could start an instruction of another warp in all of four cycles.
    many, few = (estimate(forward(), case_of(), figures(registers=count), DEVICE, ()) for count in (128, 255))
    assert (many.resident_warps, few.resident_warps) == (16, 8)
    assert few.issue == pytest.approx(2 * many.issue)


def test_issue_can_be_the_bound():
    found = estimate(forward(), case_of(), figures(instructions=100_000), DEVICE, ())
    assert found.bound is Bound.ISSUE
    assert found.slowdown == found.issue


def test_a_second_read_costs_what_the_cache_does_not_keep():
    # 16 programs on each of 10 multiprocessors, each at a row of 128 KiB: 20 MiB, of which half of 8 MiB is kept.
    loop = forward(block_cols=8192, num_warps=4)
    found = estimate(loop, case_of(cols=65536), figures(), DEVICE, ())
    assert found.traffic == pytest.approx(1 + (1 - 4 / 20) / 2)
    assert estimate(loop, case_of(cols=65536), figures(), replace(DEVICE, l2_bytes=2**30), ()).traffic == 1.0


def test_partial_sums_are_traffic():
    # 40 groups of float32 sums written and read, beside 10,000 rows of three 16-bit values; LayerNorm has two sums.
    one = estimate(backward(), case_of("backward"), figures(registers=128), DEVICE, ())
    two = estimate(backward(), case_of("backward", norm="layer_norm"), figures(registers=128), DEVICE, ())
    assert one.traffic == pytest.approx(1 + 40 * 8 / (10_000 * 6))
    assert two.traffic - 1 == pytest.approx(2 * (one.traffic - 1))


def test_a_backward_in_blocks_of_columns_reads_both_inputs_twice():
    whole = estimate(backward(), case_of("backward"), figures(registers=128), DEVICE, ())
    blocks = estimate(backward(block_cols=512, resident_programs=8), case_of("backward"), figures(registers=128), DEVICE, ())
    assert blocks.traffic - whole.traffic == pytest.approx(2 / 3)


def test_broken_budgets_and_the_width_of_accesses_are_kept():
    found = estimate(forward(), case_of(), figures(loads={128: 2, 32: 1}, stores={32: 1}), DEVICE, ("spills",))
    assert found.broken == ("spills",)
    assert found.vectors == 0.5


def test_a_program_that_does_not_fit_is_infinitely_slow():
    assert estimate(forward(num_warps=32), case_of(), figures(registers=255, threads=1024), DEVICE, ()).slowdown == float("inf")


def test_an_architecture_without_a_device_is_refused():
    with pytest.raises(UsageError, match="arch 'sm_86' has no device in the model; there are sm_80, sm_90, sm_100"):
        device_of("sm_86")
