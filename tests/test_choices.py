"""A list of words: none is asked for twice, and empty ones are not there."""

from __future__ import annotations

import pytest

from normbench.choices import split


@pytest.mark.parametrize(("text", "parts"), [("a, b", ["a", "b"]), ("a,,b,a", ["a", "b"]), (" , ", []), ("", [])])
def test_list_holds_each_word_once_in_the_order_typed(text, parts):
    assert split(text) == parts
