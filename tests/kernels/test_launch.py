"""How forward kernels are launched: pure arithmetic, no Triton."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.kernels.launch import MAX_ONE_PASS_COLS, ForwardLaunch, forward_launch


@pytest.mark.parametrize(
    ("cols", "expected"),
    [
        pytest.param(1, (2048, 1, 4, False), id="a single column"),
        pytest.param(64, (32, 64, 4, False), id="a head of attention"),
        pytest.param(512, (4, 512, 4, False), id="the widest row that shares a program"),
        pytest.param(513, (1, 1024, 4, False), id="the narrowest that does not"),
        pytest.param(5120, (1, 8192, 16, False), id="no power of two"),
        pytest.param(16384, (1, 16384, 16, False), id="the widest row kept on chip"),
        pytest.param(16385, (1, 8192, 16, True), id="the narrowest that is looped over"),
    ],
)
def test_widths_at_the_edges(cols, expected):
    launch = forward_launch(cols)
    assert (launch.block_rows, launch.block_cols, launch.num_warps, launch.is_looped) == expected


@given(cols=st.integers(1, 2**20), rows=st.integers(0, 2**31))
def test_every_row_and_column_is_covered_and_the_tile_fits(cols, rows):
    launch = forward_launch(cols)
    assert launch.programs(rows) * launch.block_rows >= rows
    assert (launch.programs(rows) - 1) * launch.block_rows < max(rows, 1)
    assert launch.block_cols >= cols or launch.is_looped
    for size in (launch.block_rows, launch.block_cols, launch.num_warps):
        assert size & (size - 1) == 0
    # 32 float32 values a thread leave registers to spare of the 128 that 512 threads may have.
    assert launch.block_rows * launch.block_cols <= 32 * 32 * launch.num_warps
    assert launch.block_rows * launch.block_cols <= MAX_ONE_PASS_COLS


@pytest.mark.parametrize(("rows", "programs"), [(0, 0), (1, 1), (4, 1), (5, 2), (2**40, 2**38)])
def test_programs_are_rows_divided_by_the_tile_rounded_up(rows, programs):
    assert ForwardLaunch(block_rows=4, block_cols=512, num_warps=4, is_looped=False).programs(rows) == programs
