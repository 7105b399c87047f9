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
"""Widest row that a forward keeps on chip: 32 float32 values a thread at 16 warps. Of 16-bit values it keeps twice as many, at 32 warps
and 64 registers a thread; of float32 that many spill 40 bytes."""

MAX_BACKWARD_COLS = 8192
"""Widest row that a backward keeps on chip: x, dy, the weight and two sums are five float32 values a column, 80 a thread at 16 warps."""

SMALL_COLS = 1024
"""Widest row that shares its program with others, and width of a block of columns. A single row of 1024 16-bit values at 4 warps leaves
a multiprocessor with 32 KiB on their way from memory forward and 16 backward; two leave 64 and 32, and an H200 wants 48."""

TILE = 2048
"""Elements of a program that handles several rows: 16 a thread at 4 warps, two 128-bit loads of 16-bit values."""

WIDE_TILE = 1024
"""The same in a backward of float64, and of float32 rows of at most 64 columns: 2048 spill, there for the statistics of 32 rows."""

WIDE_TILE_COLS = 64
"""Widest float32 row whose backward has the smaller tile."""

LOOP_COLS = 8192
"""Columns of one step of a loop: 16 a thread at 16 warps, so that a row of 131072 takes 16 steps twice."""

ELEMENTS_PER_THREAD = 16
MAX_ELEMENTS_PER_THREAD = 32
MIN_WARPS, MAX_WARPS = 4, 16
"""Warps of a program; more only where a row on chip would be more than 32 elements a thread."""

RESIDENT_WARPS = 16
"""Warps of a backward that a multiprocessor holds at once: with the sums in registers a thread takes about 100 of 65536."""

MAX_REGISTERS = 128
"""Registers a thread may take where 16 warps share 65536. Left alone, the assembler spills 8 to 16 bytes to get by with 64, 80 or 96,
which lets in no more programs than are launched."""

MAX_LOOP_REGISTERS = 64
"""The same for a forward's loop over 16-bit values: LayerNorm with a residual takes 100 left alone, and one program is resident instead
of two. With float32 it would spill 64 bytes, and one program has enough on its way."""


def _power_of_two(size: int) -> int:
    """Return the smallest power of two that is not below a size of at least 1."""
    return 1 << (size - 1).bit_length()


def _tile(cols: int, elements: int) -> tuple[int, int, int]:
    """Return rows, columns and warps of a tile that holds whole rows: several of them, `elements` in all, where they are narrow."""
    block_cols = _power_of_two(cols)
    block_rows = elements // block_cols if block_cols <= SMALL_COLS else 1
    lanes = block_rows * block_cols // 32
    warps = min(max(lanes // ELEMENTS_PER_THREAD, MIN_WARPS), MAX_WARPS)
    return block_rows, block_cols, max(warps, lanes // MAX_ELEMENTS_PER_THREAD)


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


def forward_launch(cols: int, itemsize: int) -> ForwardLaunch:
    """Choose the launch for a row of `cols` elements, at least 1, of `itemsize` bytes. A row's bits do not depend on how many there are."""
    assert cols > 0, cols
    is_short = itemsize <= 2
    if cols > MAX_FORWARD_COLS * (2 if is_short else 1):
        registers = MAX_LOOP_REGISTERS if is_short else MAX_REGISTERS
        return ForwardLaunch(block_rows=1, block_cols=LOOP_COLS, num_warps=MAX_WARPS, is_looped=True, max_registers=registers)
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
    max_registers: int

    @classmethod
    def spread(
        cls,
        rows: int,
        cols: int,
        multiprocessors: int,
        *,
        block_rows: int,
        block_cols: int,
        num_warps: int,
        resident_programs: int,
        max_registers: int,
    ) -> BackwardLaunch:
        """Spread rows and columns over so many programs on each multiprocessor; a group has at least one tile."""
        column_blocks = -(-cols // block_cols)
        groups = min(max(1, multiprocessors * resident_programs // column_blocks), -(-rows // block_rows))
        return cls(
            block_rows=block_rows,
            block_cols=block_cols,
            num_warps=num_warps,
            column_blocks=column_blocks,
            groups=groups,
            max_registers=max_registers,
        )

    @property
    def holds_whole_rows(self) -> bool:
        """Say whether a tile has all columns of its rows, so that their means need no kernel of their own."""
        return self.column_blocks == 1


def backward_launch(rows: int, cols: int, itemsize: int, multiprocessors: int) -> BackwardLaunch:
    """Choose the launch for at least one row of at least one element of `itemsize` bytes on a device of so many multiprocessors."""
    assert rows > 0 < cols, (rows, cols)
    elements = WIDE_TILE if itemsize > 4 or (itemsize > 2 and cols <= WIDE_TILE_COLS) else TILE
    if cols <= MAX_BACKWARD_COLS:
        block_rows, block_cols, num_warps = _tile(cols, elements)
    else:
        # Several KiB of contiguous values, and few enough sums to keep.
        block_rows, block_cols, num_warps = elements // SMALL_COLS, SMALL_COLS, MIN_WARPS
    return BackwardLaunch.spread(
        rows,
        cols,
        multiprocessors,
        block_rows=block_rows,
        block_cols=block_cols,
        num_warps=num_warps,
        resident_programs=RESIDENT_WARPS // num_warps,
        max_registers=MAX_REGISTERS,
    )


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
