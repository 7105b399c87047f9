"""A shape and its text stand for each other, and what is no shape is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.cases.shape import parsed_shape, shape_text
from normbench.errors import UsageError


@given(st.lists(st.integers(0, 10**18 - 1), min_size=1, max_size=5).map(tuple))
def test_text_of_a_shape_is_read_back(sizes):
    assert parsed_shape(shape_text(sizes)) == sizes


def test_sizes_are_in_order():
    assert shape_text((4, 128, 512)) == "4x128x512"
    assert parsed_shape("017x0") == (17, 0)


# Every way to get a shape wrong that a regular expression could let through; int() takes digits of any script and no more than 4300.
@pytest.mark.parametrize("text", ["", "x", "8x", "x8", "4xx5", "-8x64", "8X64", "8 x 64", "12.5", "8x64\n", "\u0661x64", "1_0", "9" * 5000])
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(UsageError, match="is not a shape such as 4x128x512"):
        parsed_shape(text)
