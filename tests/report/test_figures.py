"""Figures need no display, never pyplot, and say what they do not show."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
import synthetic

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions
from normbench.cases.definition import Definition
from normbench.drawing.canvas import png, size_ticks, value_ticks
from normbench.records.record import Departure, Status
from normbench.report.figures import bandwidth_figure, time_figure
from normbench.report.heatmap import speedup_figure
from normbench.report.pages import pages
from normbench.report.tables import by_scope
from normbench.results.derived import derive_results

CASE = Case.make("rms_norm", "forward", (4, 128, 512), "float32")
FIGURES = [time_figure, bandwidth_figure, speedup_figure]


def page(records):
    (found,) = pages(by_scope(derive_results(records)))
    return found


def texts(figure):
    return {text.get_text() for axis in figure.axes for text in axis.texts}


@pytest.mark.parametrize("draw", FIGURES)
def test_full_run_is_drawn_1200_pixels_wide(draw):
    figure = draw(page(synthetic.full_run().records))
    content = png(figure)
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == 1200
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["layer_norm forward", "rms_norm forward", "layer_norm forward_backward", "rms_norm forward_backward"]


@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize(
    "records",
    [
        synthetic.group(CASE),
        [*synthetic.group(CASE), synthetic.record(CASE, "triton", status=Status.OOM, reason="no memory")],
        [*synthetic.group(CASE), synthetic.record(CASE, "broken", measurement=synthetic.constant(0.0))],
        [*synthetic.group(CASE), *synthetic.group(Case.make("rms_norm", "forward", (0, 512), "float32"))],
        [*synthetic.group(CASE), *synthetic.group(Case.make("rms_norm", "forward", (128, 4, 512), "float32"))],
        [*synthetic.group(CASE, [f"p{number}" for number in range(9)] + ["aten"])],
        [synthetic.record(CASE, name, measurement=synthetic.constant(1e-3)) for name in ("aten", "compile")],
        [synthetic.record(CASE, name, measurement=synthetic.constant(time)) for name, time in (("aten", 1.0), ("compile", 1e-9))],
    ],
    ids=["single-shape", "oom", "zero-samples", "empty-shape", "two-shapes-of-one-size", "ten-providers", "all-the-same", "nine-decades"],
)
def test_odd_runs_are_drawn(draw, records):
    assert png(draw(page(records))).startswith(b"\x89PNG")


@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize(
    "records",
    [
        [synthetic.record(CASE, "aten", measurement=synthetic.constant(0.0))],
        [synthetic.record(CASE, "aten", measurement=synthetic.constant(-1.0))],
        [synthetic.record(CASE, "triton", status=Status.UNSUPPORTED, reason="no GPU")],
    ],
    ids=["zero", "negative", "unsupported"],
)
def test_nothing_to_draw_is_none(draw, records):
    assert draw(page(records)) is None


def test_map_needs_the_baseline_beside():
    assert speedup_figure(page(synthetic.group(CASE, ["compile", "eager"]))) is None
    assert speedup_figure(page(synthetic.group(CASE, ["aten"]))) is None


def test_map_cells_hold_figures_or_the_status():
    records = [
        *synthetic.group(CASE, ["aten", "compile", "eager"], aten=2e-3, compile=1e-3, eager=2e-3),
        synthetic.record(CASE, "triton", status=Status.OOM, reason="no memory"),
        synthetic.record(CASE, "mine", group="later"),
    ]
    found = texts(speedup_figure(page(records)))
    assert {"oom", "not side by side"} <= found
    assert any(text.startswith(("1.9", "2.0")) for text in found)
    assert any(text.endswith("≈") for text in found)


def test_map_says_of_another_formula_that_it_is_one():
    apart = Departure(definition=Definition.EPS_OUTSIDE_ROOT, accuracy=())
    records = [*synthetic.group(CASE, ["aten", "compile"]), synthetic.record(CASE, "guide", departure=apart)]
    assert {"another formula"} <= texts(speedup_figure(page(records)))


def test_lines_say_what_is_not_shown():
    records = [*synthetic.group(CASE), synthetic.record(CASE, "triton", status=Status.UNSUPPORTED, reason="no GPU")]
    figure = time_figure(page(records))
    assert "not shown: triton (unsupported)" in texts(figure)
    figure.canvas.draw()
    (note,) = (text for axis in figure.axes for text in axis.texts)
    (axis,) = figure.axes
    assert not note.get_window_extent().overlaps(axis.get_window_extent()), "in the panel it would lie on lines"
    assert not note.get_window_extent().overlaps(axis.title.get_window_extent())


@pytest.mark.parametrize("draw", [time_figure, bandwidth_figure])
def test_panels_hold_whole_intervals(draw):
    noisy = [synthetic.record(CASE, name, measurement=synthetic.measurement(1e-3, processes=3, noise=1.0)) for name in ("aten", "compile")]
    figure = draw(page(noisy))
    (axis,) = figure.axes
    low, high = axis.get_ylim()
    ends = [y for container in axis.containers for segment in container.lines[2][0].get_segments() for _, y in segment]
    assert len(ends) == 4
    assert low < min(ends) < max(ends) < high
    assert "arrow" not in axis.get_xlabel()


def test_an_interval_of_decades_ends_in_an_arrow():
    unsure = msgspec.structs.replace(synthetic.constant(1e-3), blocks=tuple(synthetic.constant(time).blocks[0] for time in (1e-4, 1e-2)))
    (axis,) = time_figure(page([synthetic.record(CASE, "aten", measurement=unsure)])).axes
    assert axis.get_xlabel() == "size of x (arrow: the interval goes on)"
    assert [line.get_marker() for line in axis.lines if line.get_linestyle() == "None" and not line.get_clip_on()] == ["v", "^"]


def test_pages_have_names_of_their_own():
    records = synthetic.group(CASE) + synthetic.group(CASE, conditions=Conditions(device="cuda:0", threads=1))
    records += synthetic.group(Case.make("rms_norm", "forward", (4, 8), "float32", weight=False))
    slugs = [one.slug for one in pages(by_scope(derive_results(records)))]
    assert len(set(slugs)) == 3
    assert all(set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.") for slug in slugs)


@pytest.mark.parametrize("values", [[1.0], [1.1, 1.2], [3e-6, 4e-3], [1e-9, 1.0], [8.0, 8.0]])
def test_ticks_are_few_and_never_none(values):
    assert 1 <= len(value_ticks(values)) <= 7
    assert 1 <= len(size_ticks([value * 1e9 for value in values])) <= 6


def test_drawing_needs_no_display_and_leaves_pyplot_alone(tmp_path):
    code = (
        "import sys, synthetic\n"
        "from normbench.report import write_report\n"
        "from normbench.cases.case import Case\n"
        f"write_report(synthetic.run(synthetic.group(Case.make('rms_norm', 'forward', (4, 8), 'float32'))), {str(tmp_path)!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules and 'torch' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MPLBACKEND")}
    environment["PYTHONPATH"] = os.pathsep.join([os.path.dirname(synthetic.__file__), environment.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment, timeout=120)
    assert len(list(tmp_path.glob("*.png"))) == 3
