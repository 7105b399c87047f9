"""The task whose instructions are counted: calls of one arm, as many as it is told, while somebody outside counts."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from ..cases.case import Case
from ..cases.conditions import Conditions, Pages
from ..measure.process import loaded_provider, prepare_process, prepared_function
from ..measure.timer import run_calls

__all__ = ["CountedTask", "make_counted_calls"]

WARM_CALLS = 3
"""Calls that are not counted: the first compiles, and the next may still find something out about their arguments."""


class CountedTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for calls of an arm. How many, an 8-byte number a time, comes through the socket at `address`, until its end."""

    case: Case
    conditions: Conditions
    provider: str
    seed: int
    address: str


def make_counted_calls(task: CountedTask, emit: Callable[[Any], None]) -> None:
    """Emit the process's number and the instruction set that PyTorch chose when it is ready, then "done" after each lot of calls."""
    import torch

    from ..oracle.problem import make_problem
    from ..workloads.op import make_call, private_copies

    device = prepare_process(task.conditions, task.case, Pages.REUSED)
    function = prepared_function(task.provider, task.case)
    problem = make_problem(task.case, device=device, seed=task.seed)
    own, restore = private_copies(problem, loaded_provider(task.provider).mutates(task.case))
    call = make_call(own, function)
    run_calls(call, WARM_CALLS)
    with socket.socket(socket.AF_UNIX) as orders:
        orders.connect(task.address)
        emit((os.getpid(), torch.backends.cpu.get_cpu_capability()))
        while order := orders.recv(8):
            if restore is not None:
                restore()
            run_calls(call, int.from_bytes(order, "big"))
            emit("done")
