"""Thousands of inputs in Triton's interpreter: norms, conventions, dtypes, shapes, strides and values of every kind.

A08 A38 and A34 ask for the same bits; A07 A09 A10 A11 A13 A14 A15 A23 A24 A32 A33 A35 A37 are members of the kinds that are drawn.
"""

import pytest
from interpreter import run_interpreted


# Each is a process of its own, so that two workers share them; as many inputs as are worth half a minute of one core.
@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("test_forward_is_right_and_a_row_has_the_same_bits_alone_and_contiguous", 1530),
        ("test_forward_and_backward_are_right_and_have_the_same_bits_again_and_contiguous", 330),
        ("test_rows_beside_a_bad_one_have_the_bits_that_they_have_without_it", 60),
        ("test_any_set_of_gradients_has_the_bits_of_all_of_them", 80),
    ],
)
def test_a_property_holds_for_every_input(name, inputs, tmp_path):
    found = run_interpreted(f"properties.py::{name}", tmp_path)
    assert int(found[name]["inputs"]) >= inputs
    print(f"{name}: {found[name]['inputs']} inputs")
