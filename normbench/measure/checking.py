"""The task that checks the providers of a case against the oracle, before any of them is timed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec

from ..case import Case, Conditions, Pages, Pass
from ..record import Accuracy, Memory, Status
from .process import first_line, is_out_of_memory, loaded_provider, prepare_process, synchronise

__all__ = ["CheckResult", "CheckTask", "check"]


class CheckTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the providers of a case to be checked against the oracle."""

    case: Case
    conditions: Conditions
    providers: tuple[str, ...]
    seed: int


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Say how the check of one provider ended; `ok` means that it may be timed."""

    provider: str
    status: Status
    reason: str | None = None
    accuracy: tuple[Accuracy, ...] | None = None
    first_call_s: float | None = None
    memory: Memory | None = None
    settings: dict[str, Any] = {}


def check(task: CheckTask, emit: Callable[[Any], None]) -> None:
    """Run every provider once, compare it with the oracle, and emit ("begin", provider) and then one CheckResult each."""
    from ..check import check as compare
    from ..check import describe_failure
    from ..kernels.interpret import rounds_to_nearest
    from ..problem import make_problem
    from ..workloads.op import make_call, make_forward, outputs_of, private_copies
    from .memory import measure_memory

    # Page state does not change a result, and fresh pages would make the check several times slower.
    device = prepare_process(task.conditions, task.case, Pages.REUSED)
    problem = make_problem(task.case, device=device, seed=task.seed)
    outputs: dict[str, dict[str, Any]] = {}
    first_call_s: dict[str, float] = {}
    memory: dict[str, Memory] = {}
    compile_cache: dict[str, dict[str, Any]] = {}
    for spec in task.providers:
        emit(("begin", spec))
        provider = loaded_provider(spec)
        if reason := provider.unsupported(task.case, device.type):
            emit(CheckResult(provider=spec, status=Status.UNSUPPORTED, reason=reason))
            continue
        if provider.is_interpreted(task.case, device.type) and not os.environ.get("TRITON_INTERPRET"):
            emit(CheckResult(provider=spec, status=Status.SKIPPED, reason="a Triton kernel, and this device is not a GPU"))
            continue
        own, restore = private_copies(problem, provider.mutates(task.case))
        before = _fingerprints(own)
        try:
            function = provider.prepare(task.case)
            cache_before = _compile_cache_counts()
            start = time.perf_counter()
            with rounds_to_nearest() if provider.is_interpreted(task.case, device.type) else nullcontext():
                outputs[spec] = outputs_of(own, function)
            synchronise(device)
            first_call_s[spec] = time.perf_counter() - start
            compile_cache[spec] = _compile_cache_settings(cache_before)
            if restore is not None:
                # What it returns may be the input that it overwrote.
                outputs[spec] = {name: _cloned(value) for name, value in outputs[spec].items()}
                restore()
            changed = [name for name, print_ in _fingerprints(own).items() if before[name] != print_]
            if changed:
                del outputs[spec]
                reason = f"overwrites its input {', '.join(changed)} without saying so: declare mutates={changed!r}, or leave inputs alone"
                emit(CheckResult(provider=spec, status=Status.WRONG, reason=reason))
                # The others, and the oracle, need the inputs as they were.
                problem = make_problem(task.case, device=device, seed=task.seed)
                continue
            if not provider.is_interpreted(task.case, device.type):
                memory[spec] = measure_memory(make_call(own, function), make_forward(own, function), own)
        except Exception as error:
            outputs.pop(spec, None)
            failure = _failure(spec, error)
        else:
            continue
        # Outside the except block: a live traceback would keep the failed call's tensors in memory.
        emit(failure)
        # A device that can do nothing more raises here, and the others are checked in another process.
        if _fingerprints(own) != before:
            problem = make_problem(task.case, device=device, seed=task.seed)
    emit(("begin", None))
    verdicts = compare(task.case, problem, outputs)
    for spec, accuracy in verdicts.items():
        passed = all(entry.passed for entry in accuracy)
        emit(
            CheckResult(
                provider=spec,
                status=Status.OK if passed else Status.WRONG,
                reason=None if passed else describe_failure(accuracy),
                accuracy=tuple(accuracy),
                first_call_s=first_call_s[spec],
                memory=memory.get(spec),
                settings={**_settings(task.case), **loaded_provider(spec).settings(task.case), **compile_cache.get(spec, {})},
            )
        )


def _cloned(value: Any) -> Any:
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value


def _fingerprints(problem: Any) -> dict[str, int]:
    """Return a cheap sum over the bits of every input, to see whether a call changed it."""
    import torch

    prints = {}
    for name in ("x", "weight", "bias", "residual", "dy", "dresidual_out"):
        tensor = getattr(problem, name)
        if tensor is not None:
            flat = tensor.detach().reshape(-1).view(torch.uint8)
            # Whole words sum at memory speed; bytes, for the few tensors that are no whole number of words, at a fortieth of it.
            words = flat.view(torch.int64) if flat.numel() % 8 == 0 else flat
            prints[name] = int(words.sum(dtype=torch.int64))
    return prints


def _settings(case: Case) -> dict[str, Any]:
    settings: dict[str, Any] = {"grad_mode": "enabled" if case.pass_.has_backward else "no_grad"}
    if case.pass_ is Pass.BACKWARD:
        settings |= {"retain_graph": True, "donated_buffer": False}
    return settings


def _compile_cache_counts() -> tuple[int, int]:
    """Return hits and misses of the inductor's cache on disk, in this process so far; nothing is imported for it."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = dynamo.counters["inductor"] if dynamo is not None else {}
    return counters.get("fxgraph_cache_hit", 0), counters.get("fxgraph_cache_miss", 0)


def _compile_cache_settings(before: tuple[int, int]) -> dict[str, Any]:
    """Say whether the first call compiled or found its kernels on disk, which makes seconds of difference; nothing if neither."""
    hits, misses = (now - then for now, then in zip(_compile_cache_counts(), before, strict=True))
    return {"compile_cache": "miss" if misses else "hit"} if hits or misses else {}


def _failure(provider: str, error: BaseException) -> CheckResult:
    if is_out_of_memory(error):
        return CheckResult(provider=provider, status=Status.OOM, reason=f"ran out of memory: {first_line(error)}")
    return CheckResult(provider=provider, status=Status.ERROR, reason=f"{type(error).__name__}: {first_line(error)}")
