"""Launches to try for one width: the one that `launch` chooses, and others around it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..cases.case import Pass
from ..kernels.launch import MAX_REGISTERS, MAX_WARPS, RESIDENT_WARPS, BackwardLaunch, ForwardLaunch, backward_launch, forward_launch

__all__ = ["Candidate", "candidates_for", "chosen_today"]

REGISTERS = 65_536
"""Of a multiprocessor, on every architecture in `devices`."""

LARGEST_CAP = 255
"""More registers no thread can have."""

ONE_PASS_COLS = 65_536
"""Widest block of whole rows tried: 64 elements a thread at 32 warps."""

WHOLE_ROW_COLS = 32_768
"""Widest block of whole rows that a backward tries: 32 elements a thread at 32 warps, each with two sums."""

LOOP_FROM_COLS = 4096
"""No narrower row is tried in steps or blocks of columns: it has a second read to lose, and nothing on chip to save."""

FORWARD_ELEMENTS = range(4, 65)
BACKWARD_ELEMENTS = range(4, 33)
"""Elements a thread worth compiling: fewer are less than one 128-bit load of float32, more are certain to spill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Hold a launch, whatever the number of rows and the device.

    `direction` is forward or backward. A tile of fewer columns than a row is a step of a loop (forward) or a block of columns
    (backward). `resident_programs` is how many a backward launches on each multiprocessor; a forward launches one for each tile.
    """

    direction: Pass
    block_rows: int
    block_cols: int
    num_warps: int
    max_registers: int | None
    resident_programs: int | None = None

    def is_partial(self, cols: int) -> bool:
        """Say whether a tile is narrower than a row."""
        return self.block_cols < cols

    def forward_launch(self, cols: int) -> ForwardLaunch:
        """Return the launch of a forward for a width."""
        return ForwardLaunch(
            block_rows=self.block_rows,
            block_cols=self.block_cols,
            num_warps=self.num_warps,
            is_looped=self.is_partial(cols),
            max_registers=self.max_registers,
        )

    def backward_launch(self, rows: int, cols: int, multiprocessors: int) -> BackwardLaunch:
        """Return the launch of a backward for a shape and a device."""
        assert self.resident_programs is not None, self
        assert self.max_registers is not None, self
        return BackwardLaunch.spread(
            rows,
            cols,
            multiprocessors,
            block_rows=self.block_rows,
            block_cols=self.block_cols,
            num_warps=self.num_warps,
            resident_programs=self.resident_programs,
            max_registers=self.max_registers,
        )

    def programs(self, rows: int, cols: int, multiprocessors: int) -> int:
        """Return how many programs are launched."""
        if self.direction is Pass.FORWARD:
            return self.forward_launch(cols).programs(rows)
        launch = self.backward_launch(rows, cols, multiprocessors)
        return launch.groups * launch.column_blocks

    @property
    def text(self) -> str:
        """Return the launch in words: `2 x 1024, 4 warps, 4 programs, 128 registers at most`."""
        parts = [f"{self.block_rows} x {self.block_cols}", f"{self.num_warps} warps"]
        if self.resident_programs is not None:
            parts.append(f"{self.resident_programs} programs")
        if self.max_registers is not None:
            parts.append(f"{self.max_registers} registers at most")
        return ", ".join(parts)


def chosen_today(direction: Pass, cols: int, itemsize: int) -> Candidate:
    """Return what `launch` chooses for a row of `cols` elements of `itemsize` bytes."""
    if direction is Pass.FORWARD:
        forward = forward_launch(cols, itemsize)
        return Candidate(
            direction=direction,
            block_rows=forward.block_rows,
            block_cols=forward.block_cols,
            num_warps=forward.num_warps,
            max_registers=forward.max_registers,
        )
    backward = backward_launch(1, cols, itemsize, 1)
    return Candidate(
        direction=direction,
        block_rows=backward.block_rows,
        block_cols=backward.block_cols,
        num_warps=backward.num_warps,
        max_registers=backward.max_registers,
        resident_programs=RESIDENT_WARPS // backward.num_warps,
    )


def candidates_for(direction: Pass, cols: int, itemsize: int) -> tuple[Candidate, ...]:
    """Return launches to try for a row of `cols` elements of `itemsize` bytes, today's first and each once."""
    today = chosen_today(direction, cols, itemsize)
    others = _forward(cols, today) if direction is Pass.FORWARD else _backward(cols, today)
    return tuple(dict.fromkeys((today, *others)))


def _forward(cols: int, today: Candidate) -> Iterator[Candidate]:
    block_cols = 1 << (cols - 1).bit_length()
    if block_cols <= ONE_PASS_COLS:
        whole = _one_row(today, block_cols) if today.is_partial(cols) else today
        for tile in _around(whole, FORWARD_ELEMENTS):
            yield replace(tile, max_registers=None)
        # A few registers fewer may let another program in.
        yield from (replace(whole, max_registers=cap) for cap in (32, 40, 48, 64))
    if cols > LOOP_FROM_COLS:
        for step in (2048, 4096, 8192, 16_384):
            for num_warps in (4, 8, 16, 32):
                for cap in (64, MAX_REGISTERS):
                    if step < cols and step // (32 * num_warps) in (8, 16, 32) and num_warps * 32 * cap <= REGISTERS:
                        yield replace(today, block_rows=1, block_cols=step, num_warps=num_warps, max_registers=cap)


def _backward(cols: int, today: Candidate) -> Iterator[Candidate]:
    block_cols = 1 << (cols - 1).bit_length()
    if block_cols <= WHOLE_ROW_COLS:
        whole = _one_row(today, block_cols) if today.is_partial(cols) else today
        for tile in _around(whole, BACKWARD_ELEMENTS):
            yield from _at_residences(tile)
    if cols > LOOP_FROM_COLS:
        for width in (256, 512, 1024):
            for elements, num_warps in ((1024, 4), (2048, 4), (2048, 8)):
                yield from _at_residences(replace(today, block_rows=elements // width, block_cols=width, num_warps=num_warps))


def _one_row(today: Candidate, block_cols: int) -> Candidate:
    return replace(today, block_rows=1, block_cols=block_cols, num_warps=MAX_WARPS)


def _around(tile: Candidate, elements: range) -> Iterator[Candidate]:
    """Yield tiles of half to twice the rows and the warps that leave a thread so many elements."""
    for rows in (tile.block_rows // 2, tile.block_rows, 2 * tile.block_rows):
        for num_warps in (tile.num_warps // 2, tile.num_warps, 2 * tile.num_warps):
            if rows and 1 <= num_warps <= 32 and rows * tile.block_cols // (32 * num_warps) in elements:
                yield replace(tile, block_rows=rows, num_warps=num_warps)


def _at_residences(tile: Candidate) -> Iterator[Candidate]:
    """Yield a tile with 8 to 32 warps resident on a multiprocessor, each thread capped to its share of the registers."""
    for resident_warps in (8, RESIDENT_WARPS, 24, 32):
        if programs := resident_warps // tile.num_warps:
            share = REGISTERS // (32 * tile.num_warps * programs) // 8 * 8
            yield replace(tile, resident_programs=programs, max_registers=min(share, LARGEST_CAP))
