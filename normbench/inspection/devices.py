"""What a program may use on each architecture. Pure.

Source: CUDA C++ Programming Guide 13.0, section 20.2, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError

__all__ = ["Limits", "capability_of", "limits_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hold the limits of one program (thread block)."""

    shared_bytes: int
    registers: int = 65_536
    threads: int = 1024


_KIB = 1024
LIMITS = {
    80: Limits(shared_bytes=163 * _KIB),
    86: Limits(shared_bytes=99 * _KIB),
    87: Limits(shared_bytes=163 * _KIB),
    89: Limits(shared_bytes=99 * _KIB),
    90: Limits(shared_bytes=227 * _KIB),
    100: Limits(shared_bytes=227 * _KIB),
    103: Limits(shared_bytes=227 * _KIB),
    120: Limits(shared_bytes=99 * _KIB),
}
"""Limits by compute capability, 90 for 9.0: A100, RTX 30, Orin, RTX 40 and L40, H100 and H200, B200, B300, RTX 50."""


def capability_of(arch: str) -> int:
    """Return the compute capability of an architecture such as sm_90. Raises UsageError naming those that are known."""
    prefix, _, number = arch.partition("sm_")
    if prefix or not number.isdecimal() or int(number) not in LIMITS:
        raise UsageError(f"arch {arch!r} is unknown; known are {', '.join(f'sm_{known}' for known in LIMITS)}")
    return int(number)


def limits_of(arch: str) -> Limits:
    """Return the limits of an architecture such as sm_90."""
    return LIMITS[capability_of(arch)]
