"""How the kernels are launched: rows and columns of a program's tile, warps, one pass or a loop, how many programs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "MAX_BACKWARD_COLS",
    "MAX_FORWARD_COLS",
    "MAX_REGISTERS",
    "BackwardLaunch",
    "ForwardLaunch",
    "SumLaunch",
    "backward_launch",
    "forward_launch",
    "sum_launch",
]

MAX_FORWARD_COLS = 16_384
"""Widest row that a forward keeps on chip: 32 float32 values a thread at 16 warps. 65536 columns in one block spill 352 bytes a thread."""

MAX_BACKWARD_COLS = 8192
"""Widest row that a backward keeps on chip: x, dy, the weight and two sums are five float32 values a column, 80 a thread at 16 warps."""

SMALL_COLS = 512
"""Widest row that shares its program with others: a row of 512 is 16 elements a thread at one warp, too little to hide latency."""

TILE = 2048
"""Elements of a program that handles several rows: 16 a thread at 4 warps, two 128-bit loads of 16-bit values."""

WIDE_TILE = 1024
"""The same in a backward of float32 (and float64): its next tile and its sums take twice the registers, and 2048 spill."""

LOOP_COLS = 8192
"""Columns of one step of a loop: 16 a thread at 16 warps, so that a row of 131072 takes 16 steps twice."""

ELEMENTS_PER_THREAD = 16
MIN_WARPS, MAX_WARPS = 4, 16

RESIDENT_WARPS = 16
"""Warps of a backward that a multiprocessor holds at once: with the sums in registers a thread takes about 100 of 65536."""

MAX_REGISTERS = 128
"""Registers a thread may take where 16 warps share 65536. Left alone, the assembler spills 8 to 16 bytes to get by with 64, 80 or 96,
which lets in no more programs than are launched."""


def _power_of_two(size: int) -> int:
    """Return the smallest power of two that is not below a size of at least 1."""
    return 1 << (size - 1).bit_length()


def _tile(cols: int, elements: int) -> tuple[int, int, int]:
    """Return rows, columns and warps of a tile that holds whole rows: several of them, `elements` in all, where they are narrow."""
    block_cols = _power_of_two(cols)
    block_rows = elements // block_cols if block_cols <= SMALL_COLS else 1
    warps = block_rows * block_cols // (32 * ELEMENTS_PER_THREAD)
    return block_rows, block_cols, min(max(warps, MIN_WARPS), MAX_WARPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardLaunch:
    """Hold a forward kernel's tile and warps; `is_looped` says that a row takes several steps of `block_cols`."""

    block_rows: int
    block_cols: int
    num_warps: int
    is_looped: bool
    max_registers: int | None

    def programs(self, rows: int) -> int:
        """Return the number of programs that cover `rows` rows."""
        return -(-rows // self.block_rows)


def forward_launch(cols: int) -> ForwardLaunch:
    """Choose the launch for a row of `cols` elements, at least 1. It depends on nothing else, so a row's bits do not depend on rows."""
    assert cols > 0, cols
    if cols > MAX_FORWARD_COLS:
        return ForwardLaunch(block_rows=1, block_cols=LOOP_COLS, num_warps=MAX_WARPS, is_looped=True, max_registers=MAX_REGISTERS)
    block_rows, block_cols, num_warps = _tile(cols, TILE)
    return ForwardLaunch(block_rows=block_rows, block_cols=block_cols, num_warps=num_warps, is_looped=False, max_registers=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardLaunch:
    """Hold a backward's tile and warps, and its programs: `groups` of them walk down each of `column_blocks`, tile by tile."""

    block_rows: int
    block_cols: int
    num_warps: int
    column_blocks: int
    groups: int

    @property
    def holds_whole_rows(self) -> bool:
        """Say whether a tile has all columns of its rows, so that their means need no kernel of their own."""
        return self.column_blocks == 1


def backward_launch(rows: int, cols: int, itemsize: int, multiprocessors: int) -> BackwardLaunch:
    """Choose the launch for at least one row of at least one element of `itemsize` bytes on a device of so many multiprocessors."""
    assert rows > 0 < cols, (rows, cols)
    elements = TILE if itemsize <= 2 else WIDE_TILE
    if cols <= MAX_BACKWARD_COLS:
        block_rows, block_cols, num_warps = _tile(cols, elements)
    else:
        # As wide as a warp's 16 elements a thread: 1 KiB of contiguous 16-bit values, and few enough sums to keep.
        block_rows, block_cols, num_warps = elements // SMALL_COLS, SMALL_COLS, MIN_WARPS
    column_blocks = -(-cols // block_cols)
    resident = multiprocessors * (RESIDENT_WARPS // num_warps)
    groups = min(max(1, resident // column_blocks), -(-rows // block_rows))
    return BackwardLaunch(block_rows=block_rows, block_cols=block_cols, num_warps=num_warps, column_blocks=column_blocks, groups=groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLaunch:
    """Hold the launch of the kernel that adds partial sums: steps of `block_rows` partial sums of `block_cols` columns."""

    block_rows: int
    block_cols: int
    num_warps: int
    programs: int


def sum_launch(cols: int) -> SumLaunch:
    """Choose the launch that adds partial sums of `cols` columns; the order of addition depends on nothing."""
    # 32 float32 columns are one 128-byte line of each partial sum; 1024 columns then occupy 32 programs instead of a handful.
    return SumLaunch(block_rows=64, block_cols=32, num_warps=4, programs=-(-cols // 32))
