"""Panels become a picture whatever is in them."""

from __future__ import annotations

import struct
from math import nan

import pytest

from normbench.studies.figure import draw
from normbench.studies.findings import Line, Panel, Point


def panel(*points, **axes):
    lines = (Line(name="one", points=points), Line(name="printed", points=(Point(1, 2),), is_published=True))
    return Panel(title="t", x="x", y="y", lines=lines, **axes)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_picture_is_1200_pixels_wide_with_any_number_of_panels(count):
    data = draw("title", [panel(Point(1, 2, 1, 3), Point(2, 3, 2, 4))] * count)
    width, height = struct.unpack(">II", data[16:24])
    assert width == 1200
    assert height > 300 * ((count + 1) // 2)


def test_points_without_a_place_on_a_logarithmic_axis_are_left_out():
    assert draw("title", [panel(Point(0, 0), Point(1, nan), Point(1, 1), log_x=True, log_y=True)])[:4] == b"\x89PNG"
