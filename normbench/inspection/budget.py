"""The budgets every kernel keeps: no spills, full-width accesses of tile data, and a launch that fits the device. Pure."""

from __future__ import annotations

import msgspec

from ..cases.case import DType
from .devices import Limits, limits_of
from .figures import VECTOR_BITS, Argument, Figures, Variant

__all__ = ["Breach", "broken_budgets"]

WARP = 32
REGISTER_UNIT = 8
"""Registers are handed out to a warp in units of 256, 8 a thread (CUDA Occupancy Calculator, compute capability 8.0 to 12.0)."""


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one broken budget of one variant: which, and in words by how much."""

    provider: str
    case: str
    arch: str
    kernel: str
    launch: int
    budget: str
    message: str


def broken_budgets(variant: Variant) -> list[Breach]:
    """Return every budget that a variant breaks; one that does not compile breaks the first of all."""
    if variant.figures is None:
        found = [("compiles", variant.error or "does not compile")]
    else:
        found = [*_stack(variant.figures), *_width(variant, variant.figures), *_fit(variant.figures, limits_of(variant.arch))]
    return [
        Breach(
            provider=variant.provider,
            case=variant.case,
            arch=variant.arch,
            kernel=variant.kernel,
            launch=variant.launch,
            budget=budget,
            message=message,
        )
        for budget, message in found
    ]


def _stack(figures: Figures) -> list[tuple[str, str]]:
    if not figures.stack_bytes:
        return []
    return [
        (
            "spills",
            f"{figures.stack_bytes} bytes of stack a thread, 0 allowed ({figures.local_accesses} accesses of it, "
            f"{figures.registers} registers)",
        )
    ]


def _width(variant: Variant, figures: Figures) -> list[tuple[str, str]]:
    """Hold accesses of tile data against 128 bits; scalars of a row, weights and partial sums are left to the kernel."""
    found = []
    for argument in figures.arguments:
        if not _is_tile(argument, variant):
            continue
        for what, counts in (("loads", argument.loads), ("stores", argument.stores)):
            narrow = {bits: number for bits, number in sorted(counts.items()) if bits < VECTOR_BITS}
            if narrow:
                widths = ", ".join(f"{number} of {bits} bits" for bits, number in narrow.items())
                found.append(
                    ("width", f"{argument.name}: {sum(narrow.values())} of {sum(counts.values())} {what} narrower than 128 bits ({widths})")
                )
    return found


def _is_tile(argument: Argument, variant: Variant) -> bool:
    """Say whether an argument is as large as x, and its rows are whole vectors.

    An access that could not be traced may be one of tile data: it is held to the same width where rows of the case are whole vectors.
    """
    if argument.numel is None or argument.itemsize is None:
        return variant.cols * DType(variant.dtype).itemsize % (VECTOR_BITS // 8) == 0
    return argument.numel == variant.rows * variant.cols and variant.cols * argument.itemsize % (VECTOR_BITS // 8) == 0


def _fit(figures: Figures, limits: Limits) -> list[tuple[str, str]]:
    found = []
    a_thread = -(-figures.registers // REGISTER_UNIT) * REGISTER_UNIT
    registers = a_thread * -(-figures.threads // WARP) * WARP
    if registers > limits.registers:
        found.append(("registers", f"{figures.threads} threads of {a_thread} registers are {registers}, a device has {limits.registers}"))
    if figures.threads > limits.threads:
        found.append(("threads", f"{figures.threads} threads in a program, at most {limits.threads} can be"))
    if figures.shared_bytes > limits.shared_bytes:
        found.append(("shared", f"{figures.shared_bytes} bytes of shared memory in a program, at most {limits.shared_bytes} can be had"))
    return found
