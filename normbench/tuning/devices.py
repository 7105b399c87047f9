"""The device that stands for each architecture in the model. Pure.

Warps, programs, registers and shared memory of a multiprocessor: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute
Capability". Multiprocessors, bandwidth, clock and second-level cache: NVIDIA's data sheets and architecture papers of the device named.
Bytes in flight: NVIDIA's own tuning of CUB's transform (`arch_to_min_bytes_in_flight` in
cub/device/dispatch/tuning/tuning_transform.cuh, https://github.com/NVIDIA/cccl), bytes read that must be on their way.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError

__all__ = ["DEVICES", "Device", "device_of"]

_KIB, _MIB = 2**10, 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Hold a device: `in_flight_bytes` and `shared_bytes` are of one multiprocessor, the others of the whole.

    `in_flight_bytes` is what must be on its way from memory for the whole bandwidth: bandwidth times latency, as Little's law has it.
    """

    name: str
    multiprocessors: int
    bandwidth_bytes_per_s: float
    clock_hz: float
    l2_bytes: int
    shared_bytes: int
    in_flight_bytes: int
    warps: int = 64
    programs: int = 32
    registers: int = 65_536


DEVICES = {
    "sm_80": Device(
        name="A100 80 GB SXM",
        multiprocessors=108,
        bandwidth_bytes_per_s=2.039e12,
        clock_hz=1.41e9,
        l2_bytes=40 * _MIB,
        shared_bytes=164 * _KIB,
        in_flight_bytes=16 * _KIB,
    ),
    "sm_90": Device(
        name="H200 SXM",
        multiprocessors=132,
        bandwidth_bytes_per_s=4.8e12,
        clock_hz=1.98e9,
        l2_bytes=50 * _MIB,
        shared_bytes=228 * _KIB,
        in_flight_bytes=48 * _KIB,
    ),
    "sm_100": Device(
        name="B200 SXM",
        multiprocessors=148,
        bandwidth_bytes_per_s=8e12,
        clock_hz=1.965e9,
        l2_bytes=126 * _MIB,
        shared_bytes=228 * _KIB,
        in_flight_bytes=64 * _KIB,
    ),
}
"""By architecture. Of Hopper the H200: what hides the latency of its memory hides that of an H100, which needs 32 KiB."""


def device_of(arch: str) -> Device:
    """Return the device of an architecture. Raises UsageError naming those that the model has."""
    if arch not in DEVICES:
        raise UsageError(f"arch {arch!r} has no device in the model; there are {', '.join(DEVICES)}")
    return DEVICES[arch]
