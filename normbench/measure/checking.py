"""The task that checks the providers of a case against the oracle: before any of them is timed, or for the verdict alone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from ..cases.adversary import Trial
from ..cases.case import Case, Pass
from ..cases.conditions import Conditions, Pages
from ..cases.definition import Definition
from ..cases.tiers import AnyCase
from ..errors import NormbenchError
from ..records.measurement import Memory
from ..records.record import Accuracy, Departure, Status
from .process import failure, loaded_provider, prepare_process, synchronise

if TYPE_CHECKING:
    from ..oracle.problem import Problem
    from ..registry import NormFunction

__all__ = ["Begun", "CheckResult", "CheckTask", "Purpose", "check", "drained"]


REPEATED_IN_INTERPRETER = 2**15
"""Elements of the largest case that is called a second time in Triton's interpreter, where a call may take half a minute."""


class Purpose(StrEnum):
    """Say what a check is for: for timing the memory of a call is counted, for a verdict the call is repeated and its bits compared."""

    TIMING = "timing"
    VERDICT = "verdict"


class CheckTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the providers of a case to be checked against the oracle, with the tensors of each trial in turn.

    Of a network `providers` are the names of arms, `case` is that of one of them, and there are no trials.
    """

    case: AnyCase
    conditions: Conditions
    providers: tuple[str, ...]
    seed: int
    trials: tuple[Trial, ...] = (Trial(),)
    purpose: Purpose = Purpose.TIMING


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Say how the check of one provider in one trial ended; `ok` means that it may be timed.

    `is_repeatable` says whether a second call on the same tensors gave the same bits; null where it was not tried.
    """

    provider: str
    status: Status
    trial: Trial = Trial()
    reason: str | None = None
    accuracy: tuple[Accuracy, ...] | None = None
    departure: Departure | None = None
    first_call_s: float | None = None
    memory: Memory | None = None
    settings: dict[str, Any] = {}
    is_repeatable: bool | None = None


class Begun(msgspec.Struct, frozen=True):
    """Say which provider a check is at from now on; None where it is at none alone, as when all are compared with the oracle."""

    provider: str | None


def drained(stream: Iterable[Any]) -> tuple[list[CheckResult], str | None, NormbenchError | None]:
    """Return the results of a check as far as it got and the error that ended it early, if any, after the provider that it was at.

    That one is at fault; where there is none, all that have no result are.
    """
    results: list[CheckResult] = []
    at_work: str | None = None
    try:
        for message in stream:
            if isinstance(message, Begun):
                at_work = message.provider
            else:
                results.append(message)
    except NormbenchError as error:
        return results, at_work, error
    return results, at_work, None


def check(task: CheckTask, emit: Callable[[Any], None]) -> None:
    """Run every provider in every trial, compare it with the oracle, and emit a Begun and then one CheckResult each.

    A provider's function is prepared once and used in all trials.
    """
    # Page state does not change a result, and fresh pages would make the check several times slower.
    assert isinstance(task.case, Case), task.case
    device = prepare_process(task.conditions, task.case, Pages.REUSED)
    functions: dict[str, NormFunction] = {}
    for trial in task.trials:
        _Attempts(task, task.case, trial, device, functions, emit).run()


class _Attempts:
    """Run every provider on the same tensors, judge what comes of it, and tell."""

    def __init__(
        self, task: CheckTask, case: Case, trial: Trial, device: Any, functions: dict[str, NormFunction], emit: Callable[[Any], None]
    ) -> None:
        self._task = task
        self._case = case
        self._trial = trial
        self._device = device
        self._functions = functions
        self._emit = emit
        self._problem = self._fresh_problem()
        self._outputs: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, dict[str, Any]] = {}
        """What is known of a call besides its outputs, as fields of a CheckResult."""

    def _fresh_problem(self) -> Problem:
        from ..oracle.problem import make_problem

        return make_problem(self._case, device=self._device, seed=self._task.seed, trial=self._trial)

    def _tell(self, provider: str, status: Status, reason: str | None, **fields: Any) -> None:
        self._emit(CheckResult(provider=provider, trial=self._trial, status=status, reason=reason, **fields))

    def run(self) -> None:
        for spec in self._task.providers:
            self._emit(Begun(spec))
            provider = loaded_provider(spec)
            if reason := provider.unsupported(self._case, self._device.type):
                self._tell(spec, Status.UNSUPPORTED, reason)
            elif provider.is_interpreted(self._case, self._device.type) and not os.environ.get("TRITON_INTERPRET"):
                self._tell(spec, Status.SKIPPED, "a Triton kernel, and this device is not a GPU")
            else:
                self._attempt(spec)
        self._emit(Begun(None))
        for definition in Definition:
            self._judge(definition)

    def _judge(self, definition: Definition) -> None:
        """Compare the providers that compute one formula with it and, where it is not the norm's own, with that one as well."""
        from ..oracle.check import check as compare
        from ..oracle.check import describe_failure

        case = self._case
        outputs = {spec: found for spec, found in self._outputs.items() if loaded_provider(spec).definition(case) is definition}
        if not outputs:
            return
        is_own = definition is Definition.FORMULA
        apart = {} if is_own else compare(case, self._problem, outputs)
        for spec, accuracy in compare(case, self._problem, outputs, definition).items():
            passed = all(entry.passed for entry in accuracy)
            status, reason = (Status.OK, None) if passed else (Status.WRONG, describe_failure(accuracy))
            departure = None if is_own else Departure(definition=definition, accuracy=apart[spec])
            self._tell(spec, status, reason, accuracy=tuple(accuracy), departure=departure, **self._seen[spec])

    def _attempt(self, spec: str) -> None:
        """Call a provider and keep its outputs; tell at once when it fails or changes what it must not."""
        from ..kernels.interpret import rounds_to_nearest
        from ..workloads.op import private_copies

        provider = loaded_provider(spec)
        own, restore = private_copies(self._problem, provider.mutates(self._case))
        before = _fingerprints(own)
        interpreted = provider.is_interpreted(self._case, self._device.type)
        try:
            with rounds_to_nearest() if interpreted else nullcontext():
                self._call(spec, own, restore)
            changed = [name for name, print_ in _fingerprints(own).items() if before[name] != print_]
            if not changed:
                self._look_closer(spec, own, restore, interpreted)
                return
            status, reason = Status.WRONG, _describe_overwritten(changed)
        except Exception as error:
            status, reason = failure(error)
        # Outside the except block: a live traceback would keep the failed call's tensors in memory.
        self._outputs.pop(spec, None)
        self._tell(spec, status, reason)
        # The others, and the oracle, need the inputs as they were. A device that can do nothing more raises here, and the others are
        # checked in another process.
        if _fingerprints(own) != before:
            self._problem = self._fresh_problem()

    def _call(self, spec: str, own: Problem, restore: Callable[[], None] | None) -> None:
        from ..workloads.op import outputs_of

        provider, case = loaded_provider(spec), self._case
        if spec not in self._functions:
            self._functions[spec] = provider.prepare(case)
        cache_before = _compile_cache_counts()
        start = time.perf_counter()
        outputs = outputs_of(own, self._functions[spec])
        synchronise(self._device)
        first_call_s = time.perf_counter() - start
        settings = {**_settings(case), **provider.settings(case), **_compile_cache_settings(cache_before)}
        self._seen[spec] = {"first_call_s": first_call_s, "settings": settings}
        if restore is not None:
            # What it returns may be the input that it overwrote.
            outputs = {name: _cloned(value) for name, value in outputs.items()}
            restore()
        self._outputs[spec] = outputs

    def _look_closer(self, spec: str, own: Problem, restore: Callable[[], None] | None, interpreted: bool) -> None:
        """Call a provider again: for timing to count its memory, for a verdict to compare bits."""
        from ..kernels.interpret import rounds_to_nearest
        from ..workloads.op import make_call, make_forward, outputs_of
        from .memory import measure_memory

        function = self._functions[spec]
        if self._task.purpose is Purpose.TIMING:
            if not interpreted:
                self._seen[spec]["memory"] = measure_memory(make_call(own, function), make_forward(own, function), own)
            return
        if interpreted and self._case.numel > REPEATED_IN_INTERPRETER:
            return
        with rounds_to_nearest() if interpreted else nullcontext():
            again = outputs_of(own, function)
        self._seen[spec]["is_repeatable"] = _same_bits(self._outputs[spec], again)
        if restore is not None:
            restore()


def _cloned(value: Any) -> Any:
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value


def _same_bits(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Say whether two calls returned the same bits, a NaN like any other value."""
    import torch

    def bits(value: Any) -> Any:
        return _dense(value).view(torch.uint8) if isinstance(value, torch.Tensor) else None

    pairs = [(bits(first[name]), bits(second.get(name))) for name in first]
    return all(one is not None and other is not None and torch.equal(one, other) for one, other in pairs)


def _dense(tensor: Any) -> Any:
    """Return a tensor's elements as a vector of stride 1, also where there is but one element and its stride is another."""
    import torch

    return tensor.detach().clone(memory_format=torch.contiguous_format).view(-1)


def _fingerprints(problem: Problem) -> dict[str, int]:
    """Return a cheap sum over the bits of every input, and of the memory around it, to see whether a call changed them."""
    from ..oracle.distortion import whole_storage

    prints = {}
    for name in ("x", "weight", "bias", "residual", "dy", "dresidual_out"):
        tensor = getattr(problem, name)
        if tensor is None:
            continue
        everything = _sum_of_bits(whole_storage(tensor))
        if tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes():
            prints[name] = everything
        else:
            prints[name] = _sum_of_bits(_dense(tensor))
            prints[f"{_AROUND} {name}"] = everything - prints[name]
    return prints


_AROUND = "the memory around"


def _sum_of_bits(tensor: Any) -> int:
    import torch

    flat = tensor.view(torch.uint8)
    # Whole words sum at memory speed; bytes, for the few tensors that are no whole number of words, at a fortieth of it.
    words = flat.view(torch.int64) if flat.numel() % 8 == 0 and flat.storage_offset() % 8 == 0 else flat
    return int(words.sum(dtype=torch.int64))


def _describe_overwritten(changed: list[str]) -> str:
    around = [name for name in changed if name.startswith(_AROUND)]
    inputs = [name for name in changed if name not in around]
    if not inputs:
        return f"overwrites {' and '.join(around)}: its strides are taken for those of a contiguous tensor"
    remedy = f"declare mutates={inputs!r}, or leave inputs alone" if set(inputs) <= {"x", "residual"} else "leave it alone"
    return f"overwrites its input {', '.join(inputs)} without saying so: {remedy}"


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
