"""Candidates surround today's launch, cover the row, and leave a device room; their launches are those that the kernels would have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.case import Pass
from normbench.inspection.scope import COLS
from normbench.kernels.launch import MAX_FORWARD_COLS, backward_launch, forward_launch
from normbench.tuning.candidates import Candidate, candidates_for, chosen_today

DIRECTIONS = (Pass.FORWARD, Pass.BACKWARD)
ITEMSIZES = st.sampled_from([2, 4, 8])
WIDTHS = st.integers(1, 2**18)


@given(cols=WIDTHS, itemsize=ITEMSIZES)
def test_todays_forward_is_the_launch_that_is_chosen(cols, itemsize):
    assert chosen_today(Pass.FORWARD, cols, itemsize).forward_launch(cols) == forward_launch(cols, itemsize)


@given(rows=st.integers(1, 2**20), cols=WIDTHS, itemsize=ITEMSIZES, multiprocessors=st.integers(1, 300))
def test_todays_backward_is_the_launch_that_is_chosen(rows, cols, itemsize, multiprocessors):
    today = chosen_today(Pass.BACKWARD, cols, itemsize)
    assert today.backward_launch(rows, cols, multiprocessors) == backward_launch(rows, cols, itemsize, multiprocessors)


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(cols=WIDTHS, itemsize=ITEMSIZES)
def test_today_comes_first_and_each_candidate_once(direction, cols, itemsize):
    found = candidates_for(direction, cols, itemsize)
    assert found[0] == chosen_today(direction, cols, itemsize)
    assert len(set(found)) == len(found) > 1


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(cols=WIDTHS, itemsize=ITEMSIZES)
def test_a_device_can_launch_every_candidate(direction, cols, itemsize):
    for one in candidates_for(direction, cols, itemsize):
        assert all(size > 0 and size & (size - 1) == 0 for size in (one.block_rows, one.block_cols, one.num_warps)), one
        assert one.num_warps <= 32
        # What a cap promises: so many programs fit by their registers.
        if one.max_registers is not None and one.resident_programs is not None:
            assert one.resident_programs * one.num_warps * 32 * one.max_registers <= 65536
        if direction is Pass.FORWARD:
            # The loop's kernel counts on every lane having a value, and one pass on the whole row.
            assert one.forward_launch(cols).is_looped == (one.block_cols < cols)
            assert one.forward_launch(cols).programs(7) * one.block_rows >= 7
        else:
            launch = one.backward_launch(7, cols, 132)
            assert launch.column_blocks * launch.block_cols >= cols


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_width_with_a_budget_has_more_warps_fewer_and_other_tiles_to_try(direction):
    for cols in COLS:
        found = candidates_for(direction, cols, 2)
        assert len({one.num_warps for one in found}) > 1, cols
        assert len({(one.block_rows, one.block_cols) for one in found}) > 1, cols
        assert len({one.max_registers for one in found}) > 1, cols


def test_wide_rows_are_tried_on_chip_and_in_steps():
    for cols in (MAX_FORWARD_COLS, 2 * MAX_FORWARD_COLS):
        assert {one.is_partial(cols) for one in candidates_for(Pass.FORWARD, cols, 4)} == {True, False}
        assert {one.is_partial(cols) for one in candidates_for(Pass.BACKWARD, cols, 4)} == {True, False}


def test_narrow_rows_are_not_cut():
    assert not any(one.is_partial(512) for direction in DIRECTIONS for one in candidates_for(direction, 512, 2))


def test_programs_are_those_of_the_launch():
    forward = Candidate(direction=Pass.FORWARD, block_rows=2, block_cols=1024, num_warps=4, max_registers=None)
    assert forward.programs(7, 1000, 132) == 4
    backward = Candidate(direction=Pass.BACKWARD, block_rows=2, block_cols=1024, num_warps=4, max_registers=128, resident_programs=4)
    assert backward.programs(4096, 1000, 132) == 528
    assert backward.programs(4096, 2048, 132) == 2 * 264, "two blocks of columns"
    assert backward.programs(6, 1000, 132) == 3, "no group without rows"


def test_a_launch_in_words_has_all_that_is_chosen():
    one = Candidate(direction=Pass.BACKWARD, block_rows=2, block_cols=1024, num_warps=4, max_registers=128, resident_programs=3)
    assert one.text == "2 x 1024, 4 warps, 3 programs, 128 registers at most"
