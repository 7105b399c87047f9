"""What the engine's tests look at from inside a task's process."""

from __future__ import annotations

import torch

from normbench.cases.case import Case
from normbench.cases.conditions import Conditions, Pages
from normbench.measure.process import open_workload, prepare_process
from normbench.oracle.problem import make_problem
from normbench.registry import Registry
from normbench.workloads.op import make_call


def emit_threads(argument, emit) -> None:
    """Emit the threads that a task computes with: of a case under conditions, or of a task that sets nothing."""
    if argument is not None:
        case, conditions = argument
        prepare_process(conditions, case, Pages.REUSED)
    emit(torch.get_num_threads())


def emit_compilations(case_ids, emit) -> None:
    """Compile cases one after the other in this process, call each twice, and emit how many graphs that took and all results."""
    from torch._dynamo.utils import counters

    counters.clear()
    torch.set_grad_enabled(False)
    provider = Registry().resolve("compile")
    results = []
    for case_id in case_ids:
        case = Case.from_id(case_id)
        call = make_call(make_problem(case, device="cpu", seed=0), provider.prepare(case))
        results.append((call().tolist(), call().tolist()))
    emit((counters["stats"]["unique_graphs"], results))


def emit_repeated_backward(case_id, emit) -> None:
    """Emit whether a second and third backward of the same graph give the gradients of the first."""
    case = Case.from_id(case_id)
    prepare_process(Conditions(device="cpu", threads=1), case, Pages.REUSED)
    call = make_call(make_problem(case, device="cpu", seed=0), Registry().resolve("compile").prepare(case))
    first = [gradient.clone() for gradient in call()]
    emit(all(torch.equal(gradient, other) for _ in range(2) for gradient, other in zip(first, call(), strict=True)))


def emit_new_graphs(argument, emit) -> None:
    """Emit how many graphs are compiled for a case by `compile` in this process, under conditions."""
    from torch._dynamo.utils import counters

    case, conditions = argument
    prepare_process(conditions, case, Pages.REUSED)
    counters.clear()
    (call,) = open_workload(case, ("compile",), torch.device("cpu")).repetition(0).calls.values()
    call()
    emit(counters["stats"]["unique_graphs"])


def emit_threaded_sum(conditions, emit) -> None:
    """Emit a sum that is large enough to be shared out among threads."""
    torch.set_num_threads(conditions.threads)
    emit(float(torch.ones(2**21).mul(1.0).sum()))
