"""The answer says who wins, by how much, and when nothing can be told."""

from __future__ import annotations

import re
from math import exp, log, sqrt

import pytest
import synthetic

from normbench.cases.case import Case
from normbench.records.record import Status
from normbench.report.answers import norm_answers, norm_ratios, scope_answer
from normbench.report.tables import by_scope
from normbench.results.derived import derive_results

SMALL = Case.make("rms_norm", "forward", (4, 128, 512), "float32")
LARGE = Case.make("rms_norm", "forward", (8, 256, 1024), "float32")


def answer(records):
    (grid,) = by_scope(derive_results(records))
    return scope_answer(grid)


def test_winner_margin_and_place():
    found = answer(
        synthetic.group(SMALL, eager=9e-3, aten=2e-3, compile=1e-3) + synthetic.group(LARGE, eager=9e-3, aten=6e-3, compile=2e-3)
    )
    assert found.headline == "fastest is `compile` at 2 of 2"
    (sentence,) = [line for line in found.details if line.startswith("`compile`")]
    pattern = r"`compile`, times as fast as `aten`: (.*)\u00d7 \(.*\) at 4x128x512 to (.*)\u00d7 \(.*\) at 8x256x1024; faster at 2 of 2"
    low, high = map(float, re.fullmatch(pattern, sentence).groups())
    assert (low, high) == (pytest.approx(2, rel=0.02), pytest.approx(3, rel=0.02))


def test_no_difference_is_said():
    found = answer(synthetic.group(SMALL, ["aten", "compile"], aten=2e-3, compile=2e-3))
    assert found.headline == "`aten` and `compile` cannot be told apart at 1 of 1"
    assert found.details[0].endswith("; no difference that can be told")


def test_mixed_verdicts_are_counted():
    providers = ["aten", "compile"]
    found = answer(synthetic.group(SMALL, providers, aten=2e-3, compile=2e-3) + synthetic.group(LARGE, providers, aten=2e-3, compile=4e-3))
    assert found.headline == "fastest is `aten` at 1 of 2; `aten` and `compile` cannot be told apart at 1 of 2"
    assert found.details[0].endswith("slower at 1 of 2, no difference that can be told at 1 of 2")


def test_nothing_to_compare_is_said():
    assert answer(synthetic.group(SMALL, ["compile"])).headline == "nothing to compare: only `compile` was timed side by side"
    assert answer([synthetic.record(SMALL, "aten", status=Status.ERROR, reason="boom")]).headline == "nothing was timed"


def test_single_measurement_is_never_called_a_win():
    taken = {name: synthetic.measurement(time, processes=1, repetitions=1, name=name) for name, time in (("aten", 2e-3), ("compile", 1e-3))}
    found = answer([synthetic.record(SMALL, name, measurement=one) for name, one in taken.items()])
    assert found.details[0].endswith("(no interval) at 4x128x512; a single measurement, so no interval")


def test_norm_ratio_adds_variances_on_the_log_scale():
    layer = Case.make("layer_norm", "forward", (4, 128, 512), "float32")
    results = derive_results(synthetic.group(layer, ["aten"], aten=4e-3) + synthetic.group(SMALL, ["aten"], aten=3e-3))
    (found,) = norm_ratios(results)
    times = {one.record.case.norm.value: one.time for one in results if one.record.provider == "aten"}
    halves = [log(time.high / time.low) / 2 for time in times.values()]
    ratio = times["rms_norm"].estimate / times["layer_norm"].estimate
    assert found.ratio.estimate == pytest.approx(ratio)
    assert found.ratio.high == pytest.approx(ratio * exp(sqrt(sum(half**2 for half in halves))))
    (sentence,) = norm_answers([found])
    assert "of LayerNorm's time; less" in sentence


def test_norm_ratio_needs_the_same_shape_pass_dtype_and_provider():
    others = [
        Case.make("layer_norm", "forward", (4, 128, 513), "float32"),
        Case.make("layer_norm", "backward", (4, 128, 512), "float32"),
        Case.make("layer_norm", "forward", (4, 128, 512), "float16"),
        Case.make("layer_norm", "forward", (4, 128, 512), "float32", residual=True),
    ]
    records = [synthetic.record(case) for case in others] + [synthetic.record(SMALL), synthetic.record(SMALL, "compile")]
    assert norm_ratios(derive_results(records)) == []
