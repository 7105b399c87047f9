"""The compiled norms: one compilation for each case, of that case's sizes alone, whatever was compiled before."""

from functools import partial

import pytest
import torch
import torch._functorch.config
from handmade import outputs_by
from torch._dynamo.testing import CompileCounterWithBackend

from normbench.cases.case import Case
from normbench.oracle.check import check, describe_failure
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import make_call

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # PyTorch's compiler imports a module of PyTorch that still uses this.
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


def rms_case(shape, pass_="forward", **options):
    return Case.make("rms_norm", pass_, shape, "float32", **options)


def compiled(case):
    return Registry().resolve("compile").prepare(case)


@pytest.fixture
def counter(monkeypatch):
    """Compile with a backend that generates no code, and count."""
    backend = CompileCounterWithBackend("eager")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    return backend


def run(function, case):
    problem = make_problem(case, device="cpu", seed=0)
    return function(problem.x, problem.weight, problem.bias, problem.residual, case.eps)


def test_every_case_of_a_sweep_is_compiled_once_for_its_own_sizes_in_any_order(counter):
    # 1024 twice: it is seen before and after the other sizes. Dynamo's own cache would turn dynamic from the second size on.
    sweep = [rms_case((4, cols)) for cols in (1024, 1536, 2048, 2048, 1536, 1024)]
    for case in sweep:
        function = compiled(case)
        for _ in range(3):
            run(function, case)
    assert counter.frame_count == len(sweep)
    for graph in counter.graphs:
        sizes = [node.meta["example_value"].shape for node in graph.graph.nodes if node.op == "placeholder"]
        assert all(isinstance(size, int) for shape in sizes for size in shape)


def test_more_cases_than_dynamos_limit_of_recompiles_compile(counter):
    for cols in range(1, torch._dynamo.config.recompile_limit + 4):
        run(compiled(rms_case((2, cols))), rms_case((2, cols)))


def test_earlier_functions_stay_compiled(counter):
    first_case, second_case = rms_case((4, 8)), rms_case((4, 16))
    first = compiled(first_case)
    run(first, first_case)
    run(compiled(second_case), second_case)
    before = counter.frame_count
    run(first, first_case)
    assert counter.frame_count == before


# Compilation takes seconds: one case with everything in it, and the convention whose rounding a compiler may leave out.
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case.make("layer_norm", "forward_backward", (65, 96), "bfloat16", residual=True), id="all tensors"),
        pytest.param(Case.make("rms_norm", "forward_backward", (65, 96), "bfloat16", convention="llama"), id="llama"),
    ],
)
def test_compiled_code_is_right(case):
    problem = make_problem(case, device="cpu", seed=0)
    assert describe_failure(check(case, problem, {"compile": outputs_by("compile", problem)})["compile"]) == ""


def test_a_backward_timed_on_a_kept_graph_says_that_donated_buffers_are_off():
    case = rms_case((8, 32), "backward")
    settings = Registry().resolve("compile").settings(case)
    assert settings == {"dynamic": False, "fullgraph": True, "donated_buffer": False}
    with torch._functorch.config.patch(donated_buffer=settings["donated_buffer"]):
        call = make_call(make_problem(case, device="cpu", seed=0), compiled(case))
        first, second = call(), call()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("pass_", ["forward", "forward_backward"])
def test_a_graph_that_is_used_once_needs_no_such_setting(pass_):
    assert "donated_buffer" not in Registry().resolve("compile").settings(rms_case((8, 32), pass_))
