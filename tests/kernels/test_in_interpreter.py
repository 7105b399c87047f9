"""The forward kernels' numbers, from Triton's interpreter in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from normbench.case import Case
from normbench.errors import NormbenchError
from normbench.kernels.interpret import interpreter_check, interpreter_checks

ROOT_HALVES = pytest.approx([-(1.5**0.5), 0, 1.5**0.5], abs=1e-4)

CASES = [
    # One column: LayerNorm is its bias. 17 and 127 leave lanes past the row's end, 512 none: the widest row that shares a program.
    *(Case.make("layer_norm", "forward", (70, cols), "float32") for cols in (1, 17, 127, 512)),
    # 768 is padded by a third, 4096 is a power of two with 8 warps; each 16-bit dtype once with a weight of its own and of float32.
    Case.make("layer_norm", "forward", (5, 768), "bfloat16", residual=True),
    Case.make("layer_norm", "forward", (5, 4096), "float16", weight_dtype="float32"),
    Case.make("layer_norm", "forward", (5, 768), "bfloat16", weight=False),
    Case.make("layer_norm", "forward", (5, 768), "float32", bias=False),
    # 16384 is the widest row kept on chip; 16385 and 40000 are looped over, the last step nearly empty and nearly full.
    *(Case.make("layer_norm", "forward", (3, cols), "bfloat16", residual=cols == 40000) for cols in (16384, 16385, 40000)),
    # Every convention, in one pass with several rows a program, in one pass, and looped.
    *(
        Case.make("rms_norm", "forward", (70, cols), "bfloat16", convention=convention, residual=convention == "llama")
        for convention in ("torch", "llama", "gemma")
        for cols in (100, 1000, 20000)
    ),
    Case.make("rms_norm", "forward", (5, 768), "float16", weight=False),
    Case.make("rms_norm", "forward", (5, 768), "float32", bias=True, residual=True),
]


@pytest.fixture(scope="module")
def verdicts():
    return {verdict.case_id: verdict for verdict in interpreter_checks(CASES, seed=0)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_kernel_agrees_with_the_oracle(verdicts, case):
    verdict = verdicts[case.id]
    assert verdict.passed, verdict.accuracy
    assert verdict.rows_checked == min(case.rows, 61, max(3, 2**19 // case.cols))


@pytest.fixture(scope="module")
def found():
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("interpreted.py"))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("what", ["sliced from qkv", "transposed", "residual of other strides"])
def test_strided_input_gives_what_a_copy_gives_and_is_left_alone(found, what):
    assert found[what]


@pytest.mark.parametrize("how", ["statistics", "statistics looped"])
def test_mean_and_rstd_are_saved_in_float32(found, how):
    assert found[how] < 4 * 2**-23


def test_padded_lanes_do_not_count(found):
    assert found["mean 1002"] == pytest.approx([-(1.5**0.5), 0, 1.5**0.5], abs=1e-4)


def test_a_large_mean_does_not_cancel(found):
    assert found["mean 40001.5"] == pytest.approx([-1.3416, -0.4472, 0.4472, 1.3416], abs=1e-3)


def test_a_constant_row_of_exact_sums_is_zero(found):
    assert found["constant"] == 0


def test_a_constant_row_in_steps_is_zero_but_for_roundings_of_the_mean(found):
    # eps = 1e-5 multiplies what is left by 316; one rounding of 1234 is 6e-5.
    assert found["constant looped"] <= 316 * 2 * 1234 * 2**-24


def test_empty_input_launches_nothing_and_keeps_its_shape(found):
    assert found["empty"] == [[0, 1024], [1, 0, 10], [1, 0]]


def test_the_interpreter_rounds_to_nearest_even_as_a_gpu_does(found):
    assert found["rounding"] == [1.0, 1 + 2**-6, 1 + 2**-7, 2.0, True]


def test_a_case_that_the_kernels_do_not_take_is_refused_in_words():
    with pytest.raises(NormbenchError, match=r"code 2: case .*float64: triton computes in float32, which is not enough for float64"):
        interpreter_check(Case.make("rms_norm", "forward", (4, 64), "float64"), seed=0)
