"""How a forward kernel is launched: rows and columns of a program's tile, warps, one pass or a loop. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_ONE_PASS_COLS", "ForwardLaunch", "forward_launch"]

MAX_ONE_PASS_COLS = 16_384
"""Widest row that is kept on chip: 32 float32 values a thread at 16 warps. 65536 columns in one block spill 352 bytes a thread."""

SMALL_COLS = 512
"""Widest row that shares its program with others: a row of 512 is 16 elements a thread at one warp, too little to hide latency."""

TILE = 2048
"""Elements of a program that handles several rows: 16 a thread at 4 warps, two 128-bit loads of 16-bit values."""

LOOP_COLS = 8192
"""Columns of one step of a loop: 16 a thread at 16 warps, so that a row of 131072 takes 16 steps twice."""

ELEMENTS_PER_THREAD = 16
MIN_WARPS, MAX_WARPS = 4, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardLaunch:
    """Hold a forward kernel's tile and warps; `is_looped` says that a row takes several steps of `block_cols`."""

    block_rows: int
    block_cols: int
    num_warps: int
    is_looped: bool

    def programs(self, rows: int) -> int:
        """Return the number of programs that cover `rows` rows."""
        return -(-rows // self.block_rows)


def forward_launch(cols: int) -> ForwardLaunch:
    """Choose the launch for a row of `cols` elements, at least 1. It depends on nothing else, so a row's bits do not depend on rows."""
    assert cols > 0, cols
    if cols > MAX_ONE_PASS_COLS:
        return ForwardLaunch(block_rows=1, block_cols=LOOP_COLS, num_warps=MAX_WARPS, is_looped=True)
    block_cols = 1 << (cols - 1).bit_length()
    block_rows = TILE // block_cols if block_cols <= SMALL_COLS else 1
    warps = block_rows * block_cols // (32 * ELEMENTS_PER_THREAD)
    return ForwardLaunch(block_rows=block_rows, block_cols=block_cols, num_warps=min(max(warps, MIN_WARPS), MAX_WARPS), is_looped=False)
