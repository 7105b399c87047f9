"""Bytes of one call, counted by hand."""

import os
from functools import partial

import pytest
import torch

from normbench.cases.case import Case
from normbench.measure.memory import held_bytes, measure_memory, peak_bytes, saved_bytes
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import make_call, outputs_of

X = torch.ones(256, 1024)
SIZE = 256 * 1024 * 4


def problem_and_function(case, name):
    return make_problem(case, device="cpu", seed=0), Registry().resolve(name).prepare(case)


def test_peak_counts_what_is_live_at_once():
    def call():
        doubled = X * 2
        del doubled
        return torch.relu(X) + torch.relu(X)

    assert peak_bytes(call, "cpu") == 3 * SIZE


def test_peak_of_a_call_that_allocates_nothing():
    assert peak_bytes(lambda: X.relu_(), "cpu") == 0


def test_peak_is_the_same_each_time_and_needs_no_collection():
    assert len({peak_bytes(lambda: (X * X).relu(), "cpu") for _ in range(3)}) == 1


def test_peak_of_aten_layer_norm_is_output_and_statistics():
    case = Case.make("layer_norm", "forward", (256, 1024), "float32")
    problem, function = problem_and_function(case, "aten")
    with torch.no_grad():
        assert peak_bytes(make_call(problem, function), "cpu") == SIZE + 2 * 256 * 4


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        # centred and its square beside what y needs later; centred, normalised, y.
        ("layer_norm", 3 * SIZE),
        ("rms_norm", 2 * SIZE),
    ],
)
def test_peak_of_eager_is_its_temporaries(norm, expected):
    case = Case.make(norm, "forward", (256, 1024), "float32")
    problem, function = problem_and_function(case, "eager")
    with torch.no_grad():
        assert peak_bytes(make_call(problem, function), "cpu") == pytest.approx(expected, rel=0.01)


def test_an_error_passes_and_the_profiler_is_off_again():
    def fail():
        raise ValueError("broken")

    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            peak_bytes(fail, "cpu")
    assert peak_bytes(lambda: torch.relu(X), "cpu") == SIZE


def test_the_profiler_writes_nothing_and_the_environment_is_restored(capfd, monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    peak_bytes(lambda: X * 2, "cpu")
    assert capfd.readouterr() == ("", "")
    assert "KINETO_LOG_LEVEL" not in os.environ


def test_saved_counts_storage_once_and_leaves_inputs_out():
    x = torch.ones(256, 1024, requires_grad=True)
    # exp saves its output; so does the product, beside x itself.
    assert saved_bytes(lambda: x.exp() * x, [x]) == SIZE
    assert saved_bytes(lambda: x.exp() * x) == 2 * SIZE
    assert saved_bytes(lambda: (x.view(-1) * 2).exp() * x.view(-1), [x]) == SIZE


def test_saved_by_aten_layer_norm_is_mean_and_rstd():
    case = Case.make("layer_norm", "forward_backward", (256, 1024), "float32")
    problem, function = problem_and_function(case, "aten")
    memory = measure_memory(make_call(problem, function), partial(outputs_of, problem, function), problem)
    assert memory.saved_bytes == 2 * 256 * 4
    assert memory.peak_bytes >= 2 * SIZE
    assert memory.reason is None


def test_nothing_is_saved_without_gradients():
    case = Case.make("rms_norm", "forward", (64, 128), "float32")
    problem, function = problem_and_function(case, "eager")
    assert measure_memory(make_call(problem, function), partial(outputs_of, problem, function), problem).saved_bytes == 0


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_a_compiled_function_is_counted_without_compiling_again():
    # Compiling takes seconds, so both figures are taken of one function. It saves rstd alone and allocates y and rstd.
    case = Case.make("rms_norm", "forward_backward", (256, 1024), "float32")
    problem, function = problem_and_function(case, "compile")
    forward = partial(function, problem.x, problem.weight, problem.bias, problem.residual, case.eps)
    forward()
    with torch.compiler.set_stance("fail_on_recompile"):
        assert saved_bytes(forward, [problem.x, problem.weight]) == 256 * 4
        assert peak_bytes(forward, "cpu") == SIZE + 256 * 4


def test_what_cannot_be_counted_is_null_with_a_reason():
    def fail():
        raise RuntimeError("no such kernel")

    problem = make_problem(Case.make("rms_norm", "forward", (4, 8), "float32"), device="cpu", seed=0)
    memory = measure_memory(fail, lambda: X * 2, problem)
    assert memory.peak_bytes is None
    assert memory.saved_bytes == 0
    assert memory.reason == "peak_bytes: RuntimeError: no such kernel"
    assert measure_memory(fail, fail, problem).reason.count("no such kernel") == 2


def test_what_is_held_is_what_a_graph_and_its_result_keep_alive():
    x = torch.ones(256, 1024, requires_grad=True)

    def function():
        doubled = x * 2
        # exp keeps its own output, the product its factor: 8 bytes. The sum has 4.
        return doubled.exp().sum()

    assert held_bytes(function, "cpu") == SIZE + 8 + 4


def test_what_is_computed_again_is_not_held():
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(256, 1024, requires_grad=True)
    deep = torch.nn.Sequential(*(torch.nn.Sigmoid() for _ in range(4)))
    plain = held_bytes(lambda: deep(x).sum(), "cpu")
    again = held_bytes(lambda: checkpoint(deep, x, use_reentrant=False).sum(), "cpu")
    assert plain == 4 * SIZE + 4
    # What is kept is the state of the random generator, so that the second time draws the same.
    assert again < SIZE / 100
