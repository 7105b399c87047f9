"""Layers that differ by a number have one name."""

from __future__ import annotations

import pytest

from normbench.cases.layers import like_layers


@pytest.mark.parametrize(("path", "name"), [("h.12.mlp.experts.3.up", "h.*.mlp.experts.*.up"), ("ln_1", "ln_1"), ("", "")])
def test_numbers_in_a_path_are_left_open(path, name):
    assert like_layers(path) == name
