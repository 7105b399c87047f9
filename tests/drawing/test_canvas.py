"""What all figures share: a picture of one width that looks alike wherever it is drawn."""

from __future__ import annotations

import ast
import struct
from pathlib import Path

import matplotlib
import pytest

import normbench
from normbench.drawing.canvas import blank, grid, in_house_style, png
from normbench.studies.figure import draw
from normbench.studies.findings import Line, Panel, Point

USERS_OWN = {"font.size": 30, "axes.facecolor": "black", "lines.linewidth": 9, "savefig.facecolor": "red", "figure.dpi": 40}
PANEL = Panel(title="t", x="x", y="y", lines=(Line(name="one", points=(Point(1, 2, 1, 3), Point(2, 3, 2, 4))),))


def test_figure_is_1200_pixels_wide_and_as_high_as_asked():
    assert struct.unpack(">II", png(blank(2.0))[16:24]) == (1200, 300)


def test_grid_is_behind_one_axis_or_both():
    axis = blank(2.0).subplots()
    grid(axis, "x")
    assert (axis.xaxis.get_gridlines()[0].get_visible(), axis.yaxis.get_gridlines()[0].get_visible()) == (True, False)
    grid(axis)
    assert axis.yaxis.get_gridlines()[0].get_visible()


def test_picture_is_the_same_whatever_style_the_users_own_matplotlib_has():
    plain = draw("title", [PANEL])
    with matplotlib.rc_context(USERS_OWN):
        assert draw("title", [PANEL]) == plain
        assert matplotlib.rcParams["font.size"] == 30, "and it is left as it was"


def functions_that_make_pngs():
    """Yield each public function that makes a PNG, what decorates it and what it calls."""
    for path in sorted(Path(normbench.__file__).parent.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name != "png" and not node.name.startswith("_"):
                called = {ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
                if called & {"png", "canvas.png"}:
                    yield f"{path.parent.name}.{path.stem}.{node.name}", {ast.unparse(one) for one in node.decorator_list}, called


@pytest.mark.parametrize(
    ("name", "decorators", "called"), [*functions_that_make_pngs()], ids=lambda value: value if isinstance(value, str) else ""
)
def test_whoever_makes_a_picture_draws_it_in_the_houses_style(name, decorators, called):
    assert decorators & {"in_house_style", "canvas.in_house_style"} or "make_figure" in called


def test_style_is_on_inside_a_function_only():
    size = matplotlib.rcParamsDefault["font.size"]

    @in_house_style
    def seen(more):
        return matplotlib.rcParams["font.size"] + more

    with matplotlib.rc_context({"font.size": 30}):
        assert seen(more=1) == size + 1
