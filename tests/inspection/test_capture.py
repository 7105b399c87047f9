"""What a provider launches is written down as it would be compiled; nothing is computed, and Triton is left as it was."""

from pathlib import Path

import pytest
import torch
import triton
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from normbench.cases.case import Case
from normbench.errors import UsageError
from normbench.inspection.capture import captured, launches_of
from normbench.registry import Registry

from . import sample_kernels

SAMPLES = Path(sample_kernels.__file__)


def launches(name, pass_="forward", cols=1024, rows=16, dtype="bfloat16"):
    """Return what a provider of the samples launches, from its file as a user names it."""
    return launches_of(Registry().resolve(f"{SAMPLES}:{name}"), Case.make("rms_norm", pass_, (rows, cols), dtype))


def known(launch):
    """Return the positions of arguments that something is known of: that they divide by 16."""
    return {path[0] for path, attributes in launch.source.attrs.items() if attributes}


def state():
    return JITFunction.run, Autotuner.run, driver._active


def test_nothing_is_computed():
    y = torch.full((16, 64), 7.0)
    with captured() as seen:
        sample_kernels.scale_rows[(16,)](torch.ones(16, 64), torch.ones(64), y, 64, 64, 1e-6, BLOCK=64)
    assert [launch.kernel for launch in seen] == ["scale_rows"]
    assert (y == 7.0).all()


def test_triton_is_put_back_as_it_was():
    before = state()
    with captured():
        assert state() != before
    assert state() == before


def test_triton_is_put_back_after_an_error():
    before = state()
    with pytest.raises(UsageError, match="there is no GPU here"):
        launches("failing")
    assert state() == before


def test_a_forward_without_gradients_launches_the_forward_alone():
    assert [launch.kernel for launch in launches("sound")] == ["scale_rows"]


def test_kernels_launched_by_autograd_are_seen():
    assert [launch.kernel for launch in launches("sound", "forward_backward")] == ["scale_rows", "scale_gradient"]


def test_arguments_are_specialised_as_in_a_real_launch():
    (launch,) = launches("sound", rows=16, cols=1024)
    assert launch.source.signature == {
        "x_ptr": "*bf16",
        "weight_ptr": "*bf16",
        "y_ptr": "*bf16",
        "N": "i32",
        "x_stride": "i32",
        "eps": "fp32",
        "BLOCK": "constexpr",
    }
    # Positions of three aligned tensors, N and the stride; eps is a float, which is never specialised.
    assert known(launch) == {0, 1, 2, 3, 4}
    assert launch.constants == {"BLOCK": "1024"}


# 1000 divides by 8, not by 16: nothing is known of N and the stride. 1 is a compile-time argument of its own.
@pytest.mark.parametrize(("cols", "type_of_n"), [(1000, "i32"), (1, "constexpr")])
def test_what_is_not_known_of_sizes_is_not_claimed(cols, type_of_n):
    (launch,) = launches("sound", cols=cols)
    assert known(launch) == {0, 1, 2}
    assert launch.source.signature["N"] == type_of_n


def test_tensors_are_kept_as_sizes_only():
    (launch,) = launches("sound", rows=16, cols=1024)
    assert {name: (tensor.numel, tensor.itemsize) for name, tensor in launch.tensors.items()} == {
        "x_ptr": (16 * 1024, 2),
        "weight_ptr": (1024, 2),
        "y_ptr": (16 * 1024, 2),
    }


def test_launches_that_compile_to_the_same_are_one():
    case = Case.make("rms_norm", "forward", (16, 1024), "bfloat16")
    again = launches_of(Registry().resolve(f"{SAMPLES}:sound"), case) + launches("sound", rows=32)
    assert len({launch.key for launch in again}) == 1
    assert launches("sound", dtype="float32")[0].key != again[0].key


def test_options_of_the_launch_are_kept():
    (launch,) = launches("spilling")
    assert launch.options == {"maxnreg": 24}


def test_every_configuration_of_an_autotuned_kernel_is_seen_and_none_is_timed():
    found = launches("tuned")
    assert [launch.options["num_warps"] for launch in found] == [2, 4]
    assert {launch.constants["BLOCK"] for launch in found} == {"1024"}
    assert {launch.grid for launch in found} == {(16,)}


def test_heuristics_are_worked_out():
    (launch,) = launches("guessed", cols=1000)
    assert launch.constants == {"BLOCK": "1024"}


# eager is tensor operations; aten C++; compile makes C++ on a CPU; the last is a user's own.
@pytest.mark.parametrize("name", ["eager", "aten", "compile", f"{SAMPLES}:launchless"])
def test_a_provider_without_triton_kernels_is_refused(name):
    provider = Registry().resolve(name)
    with pytest.raises(UsageError, match="launches no Triton kernel"):
        launches_of(provider, Case.make("rms_norm", "forward_backward", (2, 64), "float32"))


def test_an_interpreter_is_refused(monkeypatch):
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    with pytest.raises(UsageError, match="TRITON_INTERPRET"):
        launches("sound")
