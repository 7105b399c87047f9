"""Panels become a picture whatever is in them."""

from __future__ import annotations

import struct
from math import nan

import pytest

from normbench.studies.figure import draw, make_figure
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


def labels(axis):
    axis.figure.canvas.draw()
    low, high = sorted(axis.get_view_interval())
    shown = [tick.label1 for which in (axis.get_major_ticks(), axis.get_minor_ticks()) for tick in which if low <= tick.get_loc() <= high]
    return [(label.get_text(), label.get_fontsize()) for label in shown if label.get_text()]


def test_logarithmic_axes_are_labelled_where_something_was_measured_and_at_round_numbers_in_one_size():
    batches = (4, 8, 16, 32, 64)
    (axis,) = make_figure("title", [panel(*(Point(batch, batch**-0.5) for batch in batches), log_x=True, log_y=True)]).axes
    assert labels(axis.xaxis) == [(text, 7) for text in ("1", "4", "8", "16", "32", "64")]
    assert labels(axis.yaxis) == [(text, 7) for text in ("0.2", "0.5", "1", "2")]


def test_many_decades_are_labelled_by_powers_of_ten():
    (axis,) = make_figure("title", [panel(Point(1, 1e-9), Point(2, 1), log_y=True)]).axes
    found = labels(axis.yaxis)
    assert len(found) >= 2
    assert all("10^{" in text and size == 7 for text, size in found)
