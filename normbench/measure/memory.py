"""Count the bytes of one call: the allocator's peak, and what autograd keeps for backward."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from ..records.measurement import Memory

if TYPE_CHECKING:
    from ..oracle.problem import Problem

__all__ = ["held_bytes", "measure_memory", "peak_bytes", "quiet_kineto", "saved_bytes"]

_KINETO_LEVEL = "KINETO_LOG_LEVEL"


def measure_memory(call: Callable[[], object], forward: Callable[[], object], problem: Problem) -> Memory:
    """Return the peak of `call`, and the bytes that `forward` saves for backward beside the problem's own tensors; never raise.

    A figure that could not be taken is null and `reason` says why. Run both functions once before: a first call allocates what
    compiling or loading a kernel needs.
    """
    reasons = []
    peak = saved = None
    try:
        peak = peak_bytes(call, problem.x.device)
    except Exception as error:
        reasons.append(f"peak_bytes: {type(error).__name__}: {error}")
    try:
        saved = saved_bytes(forward, [t for t in (problem.x, problem.residual, problem.weight, problem.bias) if t is not None])
    except Exception as error:
        reasons.append(f"saved_bytes: {type(error).__name__}: {error}")
    return Memory(peak_bytes=peak, saved_bytes=saved, reason="; ".join(reasons) or None)


def peak_bytes(call: Callable[[], object], device: torch.device | str) -> int:
    """Return the most bytes that were live at once during one call, above what was live before it.

    The call's result is among them. On CPU every allocation of torch is counted at the size asked for, and memory from before the
    call stays counted as live even if the call frees it; on CUDA the caching allocator rounds each up to 512 bytes. Memory that a
    kernel takes past torch's allocator is not seen. Raises whatever the call raises.
    """
    device = torch.device(device)
    return _cuda_peak_bytes(call, device) if device.type == "cuda" else _cpu_peak_bytes(call)


def _cuda_peak_bytes(call: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _cpu_peak_bytes(call: Callable[[], object]) -> int:
    return max(accumulate(_cpu_allocations(call), initial=0))


def _cpu_allocations(call: Callable[[], object]) -> list[int]:
    """Return the bytes that one call allocated, and with a minus sign those that it let go of, in order; its result is kept until then."""
    # torch.profiler.profile would count the same bytes, but its first start imports 900 modules and takes 4 s; this one takes 2 ms.
    with quiet_kineto(), torch.autograd.profiler.profile(use_kineto=False, profile_memory=True) as profile:
        result = call()
    del result
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]


def held_bytes(function: Callable[[], object], device: torch.device | str) -> int:
    """Return the bytes that are live after `function` ran with gradients and were not before: what its graph and its result keep alive.

    Beside what `saved_bytes` sees it counts what layers hold on to by themselves, as those do that compute activations again, and
    the result. Raises whatever `function` raises.
    """
    device = torch.device(device)
    with torch.enable_grad():
        if device.type != "cuda":
            return max(0, sum(_cpu_allocations(function)))
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        result = function()
        torch.cuda.synchronize(device)
        held = torch.cuda.memory_allocated(device) - before
    del result
    return held


@contextmanager
def quiet_kineto() -> Iterator[None]:
    """Keep the profiler from writing two lines of its own to stderr at each start (torch 2.13); a level the user chose stands.

    It reads the level once, when it is first started.
    """
    if _KINETO_LEVEL in os.environ:
        yield
        return
    os.environ[_KINETO_LEVEL] = "6"
    try:
        yield
    finally:
        del os.environ[_KINETO_LEVEL]


def saved_bytes(function: Callable[[], object], exclude: Iterable[torch.Tensor] = ()) -> int:
    """Return the bytes that autograd keeps alive for backward after `function` ran with gradients.

    Tensors that share storage count once, at the size of the storage; storages of the tensors in `exclude` (inputs, parameters)
    do not count, since they live anyway. What a custom autograd function hides on its context instead of handing it to
    `save_for_backward` is not seen. Raises whatever `function` raises.
    """
    excluded = {_storage_key(tensor) for tensor in exclude}
    sizes: dict[tuple[torch.device, int], int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        key = _storage_key(tensor)
        if key not in excluded:
            sizes[key] = tensor.untyped_storage().nbytes()
        # Detached, for an output that its own node saves would otherwise keep itself alive. Keeping it makes addresses unique.
        return tensor.detach()

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result: Any = function()
    total = sum(sizes.values())
    del result
    return total


def _storage_key(tensor: torch.Tensor) -> tuple[torch.device, int]:
    return tensor.device, tensor.untyped_storage().data_ptr()
