"""How kernels are launched: pure arithmetic, no Triton."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.kernels.launch import (
    LOOP_COLS,
    MAX_BACKWARD_COLS,
    MAX_FORWARD_COLS,
    MAX_REGISTERS,
    ForwardLaunch,
    backward_launch,
    forward_launch,
    sum_launch,
)

# Of an architecture that the kernels are compiled for (CUDA C++ Programming Guide, "Compute Capabilities"): threads of a program, and
# registers and warps of a multiprocessor.
MAX_THREADS, REGISTERS, WARPS = 1024, 65536, 64
ROWS, COLS = st.integers(1, 2**31), st.integers(1, 2**20)
ITEMSIZES = st.sampled_from([2, 4, 8])
# A device of the smallest slice to one larger than any.
MULTIPROCESSORS = st.integers(1, 300)


def is_power_of_two(size):
    return size > 0 and size & (size - 1) == 0


@pytest.mark.parametrize(
    ("cols", "itemsize", "expected"),
    [
        pytest.param(1, 2, (2048, 1, 4, False), id="a single column"),
        pytest.param(64, 2, (32, 64, 4, False), id="a head of attention"),
        pytest.param(1024, 2, (2, 1024, 4, False), id="the widest row that shares a program"),
        pytest.param(1025, 2, (1, 2048, 4, False), id="the narrowest that does not"),
        pytest.param(5120, 2, (1, 8192, 16, False), id="no power of two"),
        pytest.param(16384, 4, (1, 16384, 16, False), id="the widest row kept on chip"),
        pytest.param(16385, 4, (1, 8192, 16, True), id="the narrowest that is looped over"),
        pytest.param(16385, 2, (1, 32768, 32, False), id="kept on chip where its values are short"),
        pytest.param(32768, 2, (1, 32768, 32, False), id="the widest row of short values kept on chip"),
        pytest.param(32769, 2, (1, 8192, 16, True), id="the narrowest row of short values that is looped over"),
    ],
)
def test_forward_at_the_edges(cols, itemsize, expected):
    launch = forward_launch(cols, itemsize)
    assert (launch.block_rows, launch.block_cols, launch.num_warps, launch.is_looped) == expected


@given(cols=COLS, itemsize=ITEMSIZES, rows=st.integers(0, 2**31))
def test_forward_covers_every_row_and_column_and_its_tile_fits(cols, itemsize, rows):
    launch = forward_launch(cols, itemsize)
    assert launch.programs(rows) * launch.block_rows >= rows
    assert (launch.programs(rows) - 1) * launch.block_rows < max(rows, 1)
    assert launch.is_looped == (cols > MAX_FORWARD_COLS * (2 if itemsize == 2 else 1))
    if launch.max_registers is not None:
        assert launch.num_warps * 32 * launch.max_registers <= REGISTERS
    # A loop takes at least two steps: its kernel counts on every lane having a value.
    assert launch.block_cols < cols if launch.is_looped else cols <= launch.block_cols < 2 * cols
    assert all(map(is_power_of_two, (launch.block_rows, launch.block_cols, launch.num_warps)))
    assert launch.num_warps * 32 <= MAX_THREADS
    assert launch.block_rows * launch.block_cols <= 32 * 32 * launch.num_warps, "32 float32 values a thread leave registers to spare"


@pytest.mark.parametrize(("rows", "programs"), [(0, 0), (1, 1), (4, 1), (5, 2), (2**40, 2**38)])
def test_programs_are_rows_divided_by_the_tile_rounded_up(rows, programs):
    launch = ForwardLaunch(block_rows=4, block_cols=512, num_warps=4, is_looped=False, max_registers=None)
    assert launch.programs(rows) == programs


# On the 132 multiprocessors of an H100 SXM. Rows, columns, warps of a tile; blocks of columns, groups of rows.
@pytest.mark.parametrize(
    ("rows", "cols", "itemsize", "expected"),
    [
        pytest.param(1, 1, 2, (2048, 1, 4, 1, 1), id="one element"),
        pytest.param(4096, 1024, 2, (2, 1024, 4, 1, 528), id="the widest row that shares a program"),
        pytest.param(4096, 64, 4, (16, 64, 4, 1, 256), id="its tile halved for narrow rows of float32"),
        pytest.param(4096, 65, 4, (16, 128, 4, 1, 256), id="but not for wider ones"),
        pytest.param(4096, 1024, 8, (1, 1024, 4, 1, 528), id="halved for float64"),
        pytest.param(4096, 2048, 2, (1, 2048, 4, 1, 528), id="one row at a time"),
        pytest.param(4096, 8192, 2, (1, 8192, 16, 1, 132), id="the widest row kept on chip"),
        pytest.param(4096, 8193, 2, (2, 1024, 4, 9, 58), id="the narrowest in blocks of columns"),
        pytest.param(4096, 131072, 2, (2, 1024, 4, 128, 4), id="few groups of many columns"),
        pytest.param(4096, 1048576, 2, (2, 1024, 4, 1024, 1), id="more blocks than programs at once"),
        pytest.param(3, 2048, 2, (1, 2048, 4, 1, 3), id="fewer rows than programs"),
    ],
)
def test_backward_at_the_edges(rows, cols, itemsize, expected):
    launch = backward_launch(rows, cols, itemsize, 132)
    assert (launch.block_rows, launch.block_cols, launch.num_warps, launch.column_blocks, launch.groups) == expected


@given(rows=ROWS, cols=COLS, itemsize=ITEMSIZES, multiprocessors=MULTIPROCESSORS)
def test_backward_covers_every_column_and_gives_every_group_rows(rows, cols, itemsize, multiprocessors):
    launch = backward_launch(rows, cols, itemsize, multiprocessors)
    assert launch.column_blocks * launch.block_cols >= cols > (launch.column_blocks - 1) * launch.block_cols
    assert launch.holds_whole_rows == (cols <= MAX_BACKWARD_COLS)
    # A group without rows would be a partial sum of zeros, written and read for nothing.
    assert 1 <= launch.groups <= -(-rows // launch.block_rows)
    assert all(map(is_power_of_two, (launch.block_rows, launch.block_cols, launch.num_warps)))


@given(rows=ROWS, cols=COLS, itemsize=ITEMSIZES, multiprocessors=MULTIPROCESSORS)
def test_backward_is_resident_at_once_and_its_sums_stay_small(rows, cols, itemsize, multiprocessors):
    launch = backward_launch(rows, cols, itemsize, multiprocessors)
    if launch.groups > 1:
        warps = launch.groups * launch.column_blocks * launch.num_warps
        assert warps <= multiprocessors * WARPS
        assert warps * 32 * MAX_REGISTERS <= multiprocessors * REGISTERS
    assert launch.groups < 2**16, "the second dimension of a grid"
    # Two sums and a tile of x and one of dy in float32, 16 elements of each a thread.
    assert launch.block_rows * launch.block_cols <= 16 * 32 * launch.num_warps


@given(rows=st.tuples(ROWS, ROWS), cols=COLS, itemsize=ITEMSIZES, multiprocessors=MULTIPROCESSORS)
def test_the_number_of_rows_makes_no_new_variant_of_a_kernel(rows, cols, itemsize, multiprocessors):
    one, other = (backward_launch(count, cols, itemsize, multiprocessors) for count in rows)
    assert (one.block_rows, one.block_cols, one.num_warps) == (other.block_rows, other.block_cols, other.num_warps)


@given(cols=COLS)
def test_sums_cover_every_column(cols):
    launch = sum_launch(cols)
    assert launch.programs * launch.block_cols >= cols > (launch.programs - 1) * launch.block_cols
    assert all(map(is_power_of_two, (launch.block_rows, launch.block_cols, launch.num_warps)))


def test_the_steps_of_a_loop_are_a_tile_themselves():
    assert is_power_of_two(LOOP_COLS)
    assert LOOP_COLS <= MAX_FORWARD_COLS


@pytest.mark.parametrize("size", [0, -1])
def test_nothing_is_not_launched(size):
    with pytest.raises(AssertionError):
        forward_launch(size, 2)
    for rows, cols in [(size, 8), (8, size)]:
        with pytest.raises(AssertionError):
            backward_launch(rows, cols, 2, 1)
