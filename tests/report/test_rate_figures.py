"""Figures of training and serving: lines against the batch, bars where there is one, and sustained runs over time."""

from __future__ import annotations

import msgspec
import pytest
import throughput_runs

from normbench.drawing.canvas import png
from normbench.records.record import Status
from normbench.report.companies import by_company
from normbench.report.rate_figure import bar_figure, batch_figure
from normbench.report.rate_pictures import draw_rates
from normbench.report.sustained_figure import sustained_figure
from normbench.results.derived import derive_results


def companies(records):
    return by_company(derive_results(records))


def serving(*batches, **fields):
    return companies([record for batch in batches for record in throughput_runs.group(size=(batch, 64), **fields)])


def test_rates_against_the_batch_have_a_panel_for_each_mode_and_network_and_a_line_for_each_arm():
    found = [one for one in companies(throughput_runs.whole_run()) if one.setting.mode.value != "train"]
    figure = batch_figure(found)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [f"{what}, 64 tokens" for what in ("gpt2, prefill", "llama, prefill", "gpt2, decode", "llama, decode")]
    for axis in figure.axes:
        assert len(axis.containers) == 5, "four arms and the network without norms"
        assert [label.get_text() for label in axis.get_xticklabels()] == ["1", "4", "16"]
    assert png(figure).startswith(b"\x89PNG")


def test_points_of_one_batch_stand_apart_and_at_their_rates():
    figure = batch_figure(serving(1, 4))
    (axis,) = figure.axes
    lines = [container.lines[0] for container in axis.containers]
    assert len({line.get_xdata()[0] for line in lines}) == len(lines)
    expected = {round(2 / time_s) for time_s in throughput_runs.TIMES.values()}
    assert len(expected) == 4
    assert all(0.85 < line.get_ydata()[0] * 10e-3 < 1.6 for line in lines), "one token in about 10 ms"


def test_sequences_of_another_length_have_a_panel_of_their_own():
    found = companies([record for size in ((1, 32), (4, 32), (1, 64), (4, 64)) for record in throughput_runs.group(size=size)])
    figure = batch_figure(found)
    assert [axis.get_title().rpartition(", ")[2] for axis in figure.axes] == ["32 tokens", "64 tokens"]
    assert {len(container.lines[0].get_xdata()) for axis in figure.axes for container in axis.containers} == {2}


def test_one_batch_of_several_lengths_has_bars():
    found = companies([record for size in ((1, 32), (1, 64)) for record in throughput_runs.group(size=size)])
    assert [one.file.partition("-decode")[0] for one in draw_rates(found) if one.file.startswith("rates")] == ["rates-bars"]


def test_panels_hold_the_whole_interval_of_every_rate():
    records = [record for batch in (1, 4) for record in throughput_runs.group("decode", size=(batch, 64))]
    (axis,) = batch_figure(companies(records)).axes
    low, high = axis.get_ylim()
    rates = [one.rate for one in derive_results(records) if one.rate is not None]
    assert low < min(rate.low for rate in rates) < max(rate.high for rate in rates) < high
    assert axis.get_xlabel() == "batch"


def test_a_batch_that_an_arm_has_no_rate_at_has_no_point_and_the_others_stay():
    records = [record for batch in (1, 4) for record in throughput_runs.group(size=(batch, 64))]
    records[0] = msgspec.structs.replace(records[0], status=Status.OOM, reason="no memory left", measurement=None)
    (axis,) = batch_figure(companies(records)).axes
    assert sorted(len(container.lines[0].get_xdata()) for container in axis.containers) == [1, 2, 2, 2, 2]


def test_bars_are_as_long_as_the_rates_and_say_so():
    figure = bar_figure(companies(throughput_runs.group("train")))
    (axis,) = figure.axes
    assert axis.get_title() == "gpt2-tiny 2x64, train"
    assert [label.get_text() for label in axis.get_yticklabels()][-1] == "no norms"
    widths = [patch.get_width() for patch in axis.patches]
    assert widths == pytest.approx([128 / time_s for time_s in (*throughput_runs.TIMES.values(), 7e-3)], rel=0.1)
    assert axis.get_xlim()[0] == 0


def test_a_bar_that_is_missing_says_so_and_a_throttled_one_is_marked():
    records = throughput_runs.group("train")
    records[0] = msgspec.structs.replace(records[0], status=Status.WRONG, reason="off", measurement=None)
    records[1] = msgspec.structs.replace(records[1], status=Status.THROTTLED, reason="hot")
    more = throughput_runs.group("train", network="llama")
    figure = bar_figure(companies([*records, *more]))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert " not measured" in texts
    assert sum(text.endswith("*") for text in texts) == 1


def test_nothing_measured_is_no_figure():
    failed = [
        msgspec.structs.replace(one, status=Status.ERROR, reason="boom", measurement=None) for one in throughput_runs.group(without=None)
    ]
    assert batch_figure(companies(failed)) is bar_figure(companies(failed)) is sustained_figure(companies(failed)) is None
    assert [picture.file for picture in draw_rates(companies(failed))] == [None]
    assert "nothing was measured" in next(iter(draw_rates(companies(failed)))).caption
    assert draw_rates([]) == {}


SERIES = {"clock_mhz": (1980.0, 1980.0, 1700.0, 1600.0), "temperature_c": (60.0, 70.0, 80.0, None), "power_w": (300.0, 700.0, 700.0, 650.0)}


def test_a_sustained_run_has_a_row_for_each_figure_that_was_read():
    alone = throughput_runs.sustained(series=SERIES)
    figure = sustained_figure(
        companies([*throughput_runs.group(sustained=alone), *throughput_runs.group(network="llama", sustained=alone)])
    )
    assert [axis.get_ylabel() for axis in figure.axes][::2] == ["tokens/s", "clock, MHz", "temperature, °C", "power, W"]
    assert [axis.get_title() for axis in figure.axes[:2]] == ["gpt2-tiny 2x64", "llama-tiny 2x64"]
    rates, _, temperature = figure.axes[0], figure.axes[2], figure.axes[4]
    assert all(line.get_ydata() == pytest.approx([200.0] * 4) for line in rates.lines)
    assert all(len(line.get_xdata()) == 3 for line in temperature.lines), "what could not be read has no point"
    assert len({axis.get_xlim() for axis in figure.axes[::2]}) == 1, "one axis of time for what stands below each other"
    assert all(axis.get_ylim()[1] > max(max(line.get_ydata()) for line in axis.lines) for axis in figure.axes)
    without = sustained_figure(companies(throughput_runs.group()))
    assert [axis.get_ylabel() for axis in without.axes] == ["tokens/s"]


def test_one_moment_is_no_course():
    assert sustained_figure(companies(throughput_runs.group(sustained=throughput_runs.sustained(moments=1)))) is None
    assert sustained_figure(companies(throughput_runs.group(sustained=None))) is None


@pytest.mark.parametrize(
    ("slowdowns", "marked"),
    [
        ((None, "over 90 degrees", None, None), [0.5]),
        ((None, "over 90 degrees", None, "power cap"), [0.5, 1.0]),
        ((), [0.25, 0.5, 0.75, 1.0]),
    ],
)
def test_moments_at_which_an_arm_was_throttled_are_marked_and_it_is_named(slowdowns, marked):
    records = throughput_runs.group()
    hot = throughput_runs.sustained(throttled="over 90 degrees", slowdowns=slowdowns)
    records[0] = msgspec.structs.replace(records[0], status=Status.THROTTLED, reason="over 90 degrees", sustained=hot)
    figure = sustained_figure(companies(records))
    assert [line.get_marker() for line in figure.axes[0].lines] == ["", "x", "", "", ""]
    assert list(figure.axes[0].lines[1].get_xdata()) == marked
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[0] == "layer_norm, aten (crosses: throttled, over 90 degrees)"


def test_a_point_of_the_rate_is_marked_by_any_moment_since_the_one_before():
    records = throughput_runs.group()
    hot = throughput_runs.sustained(moments=40, throttled="power cap", slowdowns=(*[None] * 9, "power cap", *[None] * 30))
    records[0] = msgspec.structs.replace(records[0], sustained=hot)
    line, crosses, *_ = sustained_figure(companies(records)).axes[0].lines
    (marked,) = crosses.get_xdata()
    points = list(line.get_xdata())
    assert 0.25 <= marked == min(at_s for at_s in points if at_s >= 0.25)
    assert len(points) < 40


def test_a_whole_run_has_bars_of_training_lines_of_serving_and_the_sustained_runs_of_the_largest_batch():
    drawn = draw_rates(companies(throughput_runs.whole_run()))
    names = [picture.file for picture in drawn]
    assert [name.partition("-tiny")[0] for name in names] == [
        "rates-bars-train",
        "rates-batch-prefill-decode",
        "sustained-train",
        "sustained-prefill",
        "sustained-decode",
    ]
    assert len(set(names)) == len(names)
    assert all(content.startswith(b"\x89PNG") for content in drawn.values())
    assert "at the largest batch" in list(drawn)[-1].caption


def test_settings_never_share_a_file():
    narrow = throughput_runs.group("train", case={"autocast": "bfloat16"})
    plain = [*throughput_runs.group("train"), *throughput_runs.group("decode")]
    drawn = draw_rates(companies([*plain, *narrow]))
    names = [picture.file for picture in drawn]
    assert len(set(names)) == len(names) == 6
