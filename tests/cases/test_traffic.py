"""Bytes, operations and memory, against numbers worked by hand."""

import itertools
from functools import partial

import pytest
import torch

from normbench.cases.case import Case, Pass
from normbench.cases.traffic import arithmetic_intensity, bytes_moved, flops, predicted_peak_bytes
from normbench.host.threads import set_threads
from normbench.measure.memory import peak_bytes
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import make_call, outputs_of

# 8 rows of 100: 800 elements, x takes 3200 bytes in float32 and 1600 in bfloat16, a weight 400 or 200, a statistic 32.
ROWS, COLS = 8, 100


def case(norm="rms_norm", pass_="forward", dtype="float32", **options):
    return Case.make(norm, pass_, (2, 4, COLS), dtype, **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, 3200 + 400 + 3200, id="x, weight; y"),
        pytest.param({"norm": "layer_norm"}, 3200 + 400 + 400 + 3200, id="x, weight, bias; y"),
        pytest.param({"weight": False}, 3200 + 3200, id="x; y"),
        pytest.param({"residual": True}, 2 * 3200 + 400 + 2 * 3200, id="x, residual, weight; y, residual_out"),
        pytest.param({"dtype": "bfloat16"}, 1600 + 200 + 1600, id="half of each"),
        pytest.param({"dtype": "bfloat16", "weight_dtype": "float32"}, 1600 + 400 + 1600, id="wide weight"),
    ],
)
def test_bytes_of_forward(options, expected):
    assert bytes_moved(case(**options)) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, 2 * 3200 + 400 + 32 + 3200 + 400, id="x, dy, weight, rstd; dx, dweight"),
        pytest.param({"norm": "layer_norm"}, 2 * 3200 + 400 + 64 + 3200 + 2 * 400, id="x, dy, weight, mean, rstd; dx, dweight, dbias"),
        pytest.param({"norm": "layer_norm", "bias": False}, 2 * 3200 + 400 + 64 + 3200 + 400, id="no bias, no dbias"),
        pytest.param({"weight": False}, 2 * 3200 + 32 + 3200, id="no weight, no dweight"),
        pytest.param({"residual": True}, 3 * 3200 + 400 + 32 + 3200 + 400, id="dresidual_out read; one gradient for x and residual"),
        pytest.param({"dtype": "float16"}, 2 * 1600 + 200 + 32 + 1600 + 200, id="statistics stay in fp32"),
        pytest.param({"dtype": "float64"}, 2 * 6400 + 800 + 64 + 6400 + 800, id="statistics in float64"),
    ],
)
def test_bytes_of_backward(options, expected):
    assert bytes_moved(case(pass_="backward", **options)) == expected


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("residual", [False, True])
def test_forward_backward_is_the_sum_and_the_statistics_written(norm, residual):
    forward, backward, both = (bytes_moved(case(norm, pass_, residual=residual)) for pass_ in Pass)
    assert both == forward + backward + (64 if norm == "layer_norm" else 32)


def test_no_rows_leave_the_weight():
    assert bytes_moved(Case.make("rms_norm", "forward", (0, COLS), "float32")) == 400


@pytest.mark.parametrize(
    ("norm", "pass_", "options", "per_element"),
    [
        ("rms_norm", "forward", {"weight": False}, 3),
        ("rms_norm", "forward", {}, 4),
        ("layer_norm", "forward", {}, 7),
        ("layer_norm", "forward", {"residual": True}, 8),
        ("rms_norm", "backward", {"weight": False}, 6),
        ("rms_norm", "backward", {}, 9),
        ("layer_norm", "backward", {}, 13),
        ("layer_norm", "forward_backward", {}, 20),
    ],
)
def test_flops_per_element(norm, pass_, options, per_element):
    assert flops(case(norm, pass_, **options)) == per_element * ROWS * COLS


def test_arithmetic_intensity():
    assert arithmetic_intensity(case()) == pytest.approx(4 * 800 / 6800)


def test_predicted_peak_by_hand():
    big = Case.make("rms_norm", "forward", (1024, 1024), "bfloat16")
    # x and weight; both providers' y; five tensors of x's size in fp32.
    assert predicted_peak_bytes(big, 2) - predicted_peak_bytes(big, 0) == 2 * (2 * 2**20 + 2 * 1024) - 2 * 2**20
    assert predicted_peak_bytes(big, 2) == 64 * 2**20 + (2**21 + 2048) + 2 * (2**21 + 2048) + 5 * 2**22


@pytest.mark.parametrize(
    ("norm", "pass_", "dtype", "residual"),
    list(itertools.product(["layer_norm", "rms_norm"], Pass, ["float32", "bfloat16"], [False, True])),
)
def test_what_checking_and_timing_take_stays_below_and_near(norm, pass_, dtype, residual):
    # 1 MiB in fp32: large against the statistics, fast.
    asked = Case.make(norm, pass_, (256, 1024), dtype, residual=residual)
    names = ["eager", "aten"]
    taken = peak_bytes(partial(check_and_time, asked, names), "cpu")
    fixed = predicted_peak_bytes(Case.make(norm, pass_, (0, 1), dtype), 0)
    predicted = predicted_peak_bytes(asked, len(names)) - fixed
    assert taken <= predicted <= 2.5 * taken


def check_and_time(asked, names):
    registry = Registry()
    functions = [registry.resolve(name).prepare(asked) for name in names]
    problem = make_problem(asked, device="cpu", seed=0)
    with torch.set_grad_enabled(asked.pass_.has_backward), set_threads(1):
        outputs = [outputs_of(problem, function) for function in functions]
        del outputs
        for call in [make_call(problem, function) for function in functions]:
            call()
