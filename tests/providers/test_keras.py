"""Keras on its PyTorch backend: right within what it takes, and imported without a trace in the environment."""

import os
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings

from normbench.registry import Registry

from .peers import cases, failure, layer, rms

pytest.importorskip("keras", reason="needs keras")
pytestmark = pytest.mark.usefixtures("one_thread")


def unsupported(case):
    return Registry().resolve("keras").unsupported(case, "cpu")


@given(case=cases(passes=("forward", "forward_backward")))
@settings(deadline=None, max_examples=50)
def test_whatever_is_not_refused_is_right(case):
    # Gradients of 16 bits too: it computes in float32, so that columns are not added up in 16 bits as PyTorch's own norm does on a CPU.
    assume(unsupported(case) is None)
    assert failure("keras", case) == ""


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param(rms(convention="llama"), "keras.ops.rms_normalization has no llama convention", id="convention"),
        pytest.param(rms(bias=True), "keras.ops.rms_normalization has no bias", id="bias"),
        pytest.param(layer(dtype="float64"), "keras computes in float32, which is not enough for float64", id="float64"),
    ],
)
def test_what_it_does_not_compute_is_refused(case, reason):
    assert unsupported(case) == reason


def test_it_is_loaded_on_pytorch_whatever_the_user_configured_and_the_environment_stays():
    code = (
        "import os; before = dict(os.environ); from normbench.registry import Registry; from normbench.cases.case import Case;"
        "import torch; between = dict(os.environ); keras = Registry().resolve('keras');"
        "print(keras.unsupported(Case.make('rms_norm', 'forward', (1, 1), 'float32'), 'cpu'), os.environ == between,"
        "os.environ['KERAS_BACKEND'])"
    )
    environment = os.environ | {"KERAS_BACKEND": "tensorflow"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.split() == ["None", "True", "tensorflow"]
