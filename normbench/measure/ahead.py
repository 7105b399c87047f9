"""What a server does once for all its forks: import libraries of models, and call what compiles at its first call.

It runs in the server itself, in a thread that ends with it; see `Worker.prepare`.
"""

from __future__ import annotations

import torch

from ..cases.case import Case
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from .checking import CheckTask
from .mathlib import forget_buffers
from .process import keep_prepared, loaded_provider, open_workload

__all__ = ["load_networks", "prepare_calls"]


def load_networks(cases: tuple[ModelCase | ThroughputCase, ...]) -> None:
    """Import what networks are made of: a library of models takes seconds, which each task would spend again."""
    from ..models.networks import network

    for name, preset in dict.fromkeys((case.network, case.preset) for case in cases):
        network(name).build(preset, device="meta")


def prepare_calls(task: CheckTask) -> None:
    """Make the calls of all arms and call each twice, so that what a first call compiles is there for every later process."""
    case, conditions = task.case, task.conditions
    # Compiled code is made for a number of threads, and a fork that computes with another compiles again.
    torch.set_num_threads(conditions.threads)
    try:
        if isinstance(case, Case):
            for spec in task.providers:
                keep_prepared(spec, case, loaded_provider(spec).prepare(case))
        with torch.set_grad_enabled(case.pass_.has_backward):
            repetition = open_workload(case, task.providers, torch.device(conditions.device)).repetition(task.seed)
            for name, call in repetition.calls.items():
                for _ in range(2):
                    if restore := repetition.restores.get(name):
                        restore()
                    call()
    finally:
        torch.set_num_threads(1)
        forget_buffers()
