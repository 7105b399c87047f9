"""The process of a task: the providers it inherits, and how it is set up for a case."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..cases.case import Case, Pass
from ..cases.conditions import Conditions, Pages
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..cases.tiers import AnyCase
from ..errors import NormbenchError
from ..records.record import Status
from ..registry import NormFunction, Provider, Registry
from ..workloads.workload import Workload
from .worker import TaskDied

__all__ = [
    "OutOfMemory",
    "adopt_provider",
    "failure",
    "first_line",
    "keep_prepared",
    "load_compiler",
    "loaded_provider",
    "memory_told",
    "open_workload",
    "prepare_process",
    "prepared_function",
    "set_up_server",
    "status_of",
    "synchronise",
]

_providers: dict[str, Provider] = {}
"""The server's providers by the spec they were asked for with; filled when it is set up, inherited by every task's process."""

_prepared: dict[tuple[str, str], NormFunction] = {}
"""Functions that were prepared in the server already, by provider and case id; a compiled one then costs its forks nothing."""


class OutOfMemory(NormbenchError):
    """Report that a task asked for more memory than there was."""


def set_up_server(specs: tuple[str, ...]) -> None:
    """Load the providers once, in the server; nothing is computed and CUDA is not touched, so that forks stay clean."""
    import torch

    # The server itself must stay single-threaded: an OpenMP pool does not survive a fork.
    torch.set_num_threads(1)
    registry = Registry()
    for spec in specs:
        _providers[spec] = registry.resolve(spec)
    load_compiler()


def load_compiler() -> None:
    """Import torch.compile's machinery where one of the providers needs it, in the server and not in every task: it takes seconds."""
    import torch

    if not any(provider.name == "compile" for provider in _providers.values()) or os.environ.get("TRITON_INTERPRET"):
        return
    import torch._dynamo
    import torch._inductor.compile_fx

    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        # What a first compilation finds out about versions, C++ compiler and processor holds for every task: a cached kernel then
        # takes 0.4 s to load instead of 3.4. Where a GPU is in sight the compiler would look at it, too.
        with torch.no_grad():
            torch.compile(lambda x: x + 1)(torch.ones(1))


def adopt_provider(name: str, provider: Any) -> None:
    """Give the server a provider, or what has the methods of one, under a name that tasks can use."""
    _providers[name] = provider


def keep_prepared(name: str, case: Case, function: NormFunction) -> None:
    """Have every block of this server's forks use this function for a provider and a case."""
    _prepared[name, case.id] = function


def prepared_function(spec: str, case: Case) -> NormFunction:
    """Return a provider's function for a case: the one that was kept, or one prepared now."""
    kept = _prepared.get((spec, case.id))
    return _providers[spec].prepare(case) if kept is None else kept


def loaded_provider(spec: str) -> Provider:
    """Return one of the providers that the server was set up with."""
    return _providers[spec]


def open_workload(case: AnyCase, arms: tuple[str, ...], device: Any, *, is_redrawn: bool = True) -> Workload:
    """Return what makes the calls of these arms in this process; `case` is that of one of them."""
    if isinstance(case, ModelCase):
        from ..workloads.model import ModelWorkload

        return ModelWorkload(case, arms, device)
    if isinstance(case, ThroughputCase):
        from ..workloads.throughput import ThroughputWorkload

        return ThroughputWorkload(case, arms, device)
    from ..workloads.op import OpWorkload

    functions = {spec: prepared_function(spec, case) for spec in arms}
    return OpWorkload(case, device, functions, {spec: loaded_provider(spec).mutates(case) for spec in arms}, is_redrawn=is_redrawn)


def prepare_process(conditions: Conditions, case: AnyCase, pages: Pages) -> Any:
    """Set this process up as the conditions say and return the torch device."""
    import torch

    from .pages import page_control_reason, set_pages

    if conditions.device == "cpu" and (pages is Pages.FRESH or page_control_reason() is None):
        set_pages(pages)
    torch.set_num_threads(conditions.threads)
    torch.set_grad_enabled(case.pass_.has_backward)
    if case.pass_ is Pass.BACKWARD:
        # The graph is kept from call to call, and a compiled backward would otherwise write into buffers it was given.
        import torch._functorch.config

        torch._functorch.config.donated_buffer = False
    device = torch.device(conditions.device)
    if device.type == "cuda":
        # A process makes its context with the first work on a device: seconds that belong to no call.
        torch.ones(1, device=device)
        torch.cuda.synchronize(device)
    return device


def synchronise(device: Any) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def _is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The CPU allocator has no exception type of its own.
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


@contextmanager
def memory_told() -> Iterator[None]:
    """Do a task's work. Raises OutOfMemory in the place of whatever says that memory ran out."""
    try:
        yield
    except Exception as error:
        if _is_out_of_memory(error):
            # Python's own allocator has nothing to say about it.
            raise OutOfMemory(first_line(error) if str(error) else "Python itself found no memory") from None
        raise


def status_of(error: NormbenchError) -> Status:
    """Return the status of what a task's process failed at; signal 9 is what the kernel's out-of-memory killer leaves."""
    is_killed = isinstance(error, TaskDied) and error.signal_number == signal.SIGKILL
    return Status.OOM if is_killed or isinstance(error, OutOfMemory) else Status.ERROR


def failure(error: BaseException) -> tuple[Status, str]:
    """Return the status of what raised this, and the reason for its record."""
    if _is_out_of_memory(error):
        return Status.OOM, f"ran out of memory: {first_line(error)}"
    return Status.ERROR, f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["(no message)"])[0][:500]
