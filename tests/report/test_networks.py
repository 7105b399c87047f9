"""What a report says of networks: savings with intervals, what cannot be told, what is left over, and nothing of it twice."""

import io
import re

import pytest
import synthetic
from rich.console import Console

from normbench.cases.conditions import Conditions
from normbench.quantities.estimate import Estimate
from normbench.quantities.units import DASH, plus_minus
from normbench.records.measurement import Block, Measurement, Memory, StopReason
from normbench.records.record import NORM_CALLS, Status
from normbench.report import write_report
from normbench.report.console import summary_table
from normbench.report.hints import hints
from normbench.report.markdown import render_markdown
from normbench.report.networks import change_text, network_answers, network_sections, saving_text
from normbench.report.savings import savings_figure
from normbench.results.attribution import attribute
from normbench.results.derived import derive_results

LAYER, RMS = "op/layer_norm/forward/2x64x256/float32", "op/rms_norm/forward/2x64x256/float32"
CALLS = {"layer_norm": {LAYER: 5}, "rms_norm": {RMS: 5}}
ALONE = {(LAYER, "aten"): 40e-6, (RMS, "aten"): 24e-6, (LAYER, "eager"): 80e-6, (RMS, "eager"): 60e-6}
TIMES = {
    ("layer_norm", "aten"): 1e-3,
    ("rms_norm", "aten"): 0.92e-3,
    ("layer_norm", "eager"): 1.2e-3,
    ("rms_norm", "eager"): 1.2e-3,
}


def records(**changes):
    return synthetic.network(**({"times": TIMES, "without": 0.78e-3, "calls": CALLS, "alone": ALONE} | changes))


def sections(given):
    results = derive_results(given)
    return network_sections(synthetic.info(), results, attribute(results))


def render(given):
    results = derive_results(given)
    return render_markdown(synthetic.run(given), results, [], attribute(results))


@pytest.mark.parametrize(
    ("share", "half", "text"),
    [
        (0.0812, 0.0031, "8.12 ± 0.31 %"),
        (-0.2, 0.05, "-20.0 ± 5.0 %"),
        (0.25, 0.4, "25 ± 40 %"),
        (0.0005, 0.00004, "0.0500 ± 0.0040 %"),
        (0.08, None, "8.0 % (no interval)"),
    ],
)
def test_a_share_is_shown_to_the_digits_that_its_interval_leaves_certain(share, half, text):
    assert plus_minus(share, half) == text


def test_a_saving_that_cannot_be_told_from_nothing_says_so():
    assert saving_text(Estimate(value=0.01, half=0.02)) == "1.0 ± 2.0 % ≈"
    assert saving_text(Estimate(value=0.04, half=0.02)) == "4.0 ± 2.0 %"
    assert saving_text(None) == DASH


def test_a_network_has_its_times_and_a_row_for_every_change():
    (section,) = sections(records())
    assert section.title == "gpt2-tiny, 2x64, float32"
    assert [row[:2] for row in section.times.rows] == [["forward", "layer_norm"], ["forward", "rms_norm"]]
    assert section.times.header == ["pass", "norm", "aten", "eager", "no norms"]
    assert [row[1] for row in section.savings.rows] == [
        "layer_norm → rms_norm, aten",
        "layer_norm → rms_norm, eager",
        "layer_norm, aten → eager",
        "rms_norm, aten → eager",
    ]
    for row in section.savings.rows:
        assert len(row) == len(section.savings.header)
        assert all(row)


def test_networks_differ_in_size_or_conditions_are_told_apart():
    elsewhere = [
        synthetic.record(one.case, one.provider, conditions=Conditions(device="cpu", threads=1), settings=one.settings)
        for one in records()[:4]
    ]
    assert [one.circumstances.split(", ")[1] for one in sections([*records(), *elsewhere])] == ["2 threads", "1 thread"]


def test_the_answer_says_what_is_saved_where_and_what_could_be_at_most():
    given = [*records(), *synthetic.network(name="bert", times={("layer_norm", "aten"): 1e-3, ("rms_norm", "aten"): 1e-3}, noise=0.03)]
    told = network_answers(attribute(derive_results(given)))
    assert len(told) == 4, "one for each change"
    assert re.match(
        r"\*\*forward, float32\*\*, layer_norm → rms_norm, aten: saves 7\.\d+ ± \d\.\d+ % of gpt2-tiny; unresolved at 1 of 2, where .* % "
        r"could have been told; norms of no cost would save 2\d\.\d+ ± \S+ % at most \(gpt2-tiny\)",
        told[0],
    )
    assert "costs" in told[2]


def test_the_whole_report_has_networks_and_hides_their_norms_figures(tmp_path):
    path = write_report(synthetic.run(records()), tmp_path)
    text = path.read_text()
    assert (
        text.index("## Answer") < text.index("## Networks") < text.index("## Norms of the networks, alone") < text.index("## How to read")
    )
    pictures = re.findall(r"\]\((.*?\.png)\)", text)
    assert len(pictures) == 2, "no pictures of norms that were timed for the networks' sake"
    assert {file.name for file in tmp_path.iterdir()} == {*pictures, "report.md"}
    assert "Bound" not in text or "*bound*" in text
    assert "nan" not in text.lower().replace("nano", "")


def test_every_arm_that_was_not_timed_says_why():
    skipped = synthetic.record(records()[0].case, "triton", status=Status.SKIPPED, reason="this device is not a GPU", group="gpt2-forward")
    text = render([*records(), skipped])
    assert "this device is not a GPU" in text
    assert "| skipped |" in text


def test_a_run_without_networks_says_nothing_of_them():
    text = render(list(synthetic.full_run().records))
    assert "## Networks" not in text
    assert "Amdahl" not in text


def test_the_terminal_shows_networks_too():
    sink = io.StringIO()
    Console(width=200, file=sink).print(summary_table(synthetic.run(records())))
    shown = sink.getvalue()
    assert "gpt2-tiny, 2x64, float32" in shown
    assert "layer_norm → rms_norm, aten: saves" in shown


def test_the_figure_has_a_panel_per_change_and_pass_and_a_row_per_network():
    training = synthetic.network("forward_backward", times=TIMES, without=0.7e-3, calls=CALLS, alone={})
    results = derive_results([*records(), *training])
    found = [one for one in attribute(results) if one.is_of_norm]
    figure = savings_figure(found)
    assert [axis.get_title() for axis in figure.axes] == [
        f"LayerNorm → RMSNorm, {provider}, {pass_}" for provider in ("aten", "eager") for pass_ in ("forward", "forward_backward")
    ]
    # Only the leftmost panels name the networks.
    assert [[label.get_text() for label in axis.get_yticklabels()] for axis in figure.axes] == [["gpt2"], [], ["gpt2"], []]
    assert savings_figure([]) is None


def test_savings_name_the_mark_of_each_provider_and_hold_whole_intervals():
    found = [one for one in attribute(derive_results(records(noise=0.05))) if one.is_of_norm]
    figure = savings_figure(found)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["bound: norms of no cost", "predicted from the norms alone", "observed, aten", "observed, eager"]
    low, high = figure.axes[0].get_xlim()
    for one in found:
        assert low < 100 * (one.observed.value - one.observed.half)
        assert high > 100 * (one.observed.value + one.observed.half)


def one_change(after_s=0.92e-3, **changes):
    given = records(times={("layer_norm", "aten"): 1e-3, ("rms_norm", "aten"): after_s})
    given[1] = synthetic.record(
        given[1].case, "aten", **({"group": given[1].group, "settings": given[1].settings, "measurement": given[1].measurement} | changes)
    )
    (found,) = attribute(derive_results(given))
    return found


def test_a_residual_that_cannot_be_told_from_nothing_has_no_hint():
    assert hints(one_change()) == []


def test_hints_rest_on_what_was_measured():
    assert hints(one_change(1.05e-3))[0].endswith("µs per norm call less is saved than alone")
    assert hints(one_change(0.80e-3))[0].endswith("µs per norm call more is saved than alone")
    kept = hints(one_change(0.80e-3, memory=Memory(peak_bytes=1, saved_bytes=900)))
    assert any("less for the backward" in told for told in kept)
    assert not any("launch-bound" in told or "casts" in told for told in kept)


def test_a_launch_bound_arm_is_named():
    samples = ((1.05e-3,) * 9,) * 2
    block = Block(started_at=0.0, inner=1, samples_s=samples, host_s=((2e-3,) * 9,) * 2)
    taken = Measurement(timer="cuda_event", blocks=(block,) * 5, stop=StopReason.BLOCKS)
    assert any("launch-bound" in told and "`rms_norm:aten`" in told for told in hints(one_change(1.05e-3, measurement=taken)))


def test_casts_are_named_where_rows_of_16_bits_meet_another_dtype():
    narrow = "op/rms_norm/forward/2x64x256/bfloat16/llama"
    given = records(
        times={("layer_norm", "aten"): 1e-3, ("rms_norm", "aten"): 1.05e-3},
        calls={"layer_norm": {LAYER: 5}, "rms_norm": {narrow: 5}},
        alone={(LAYER, "aten"): 40e-6, (narrow, "aten"): 24e-6},
    )
    (found,) = attribute(derive_results(given))
    assert NORM_CALLS in found.after.settings
    assert any("casts" in told for told in hints(found))
    assert change_text(found) == "layer_norm → rms_norm, aten"
