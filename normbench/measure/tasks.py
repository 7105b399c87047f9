"""What runs in a task's own process: checking the providers of a case, and one block of turns. Called by name, see `worker.py`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from ..case import Cache, Case, Conditions, Pages, Pass
from ..errors import NormbenchError, UsageError
from ..provider import Provider, Registry
from ..record import Accuracy, Block, Memory, Status
from .load import OtherLoad
from .plan import Plan, make_schedule
from .sampler import Call, Samples, process_page_faults, take_repetition, warm_up
from .timer import CudaTimer, Timer, WallTimer

if TYPE_CHECKING:
    from .power import PowerMeter

__all__ = ["BlockResult", "BlockTask", "CheckResult", "CheckTask", "OutOfMemory", "block", "check", "describe_device", "setup"]

_providers: dict[str, Provider] = {}
"""The server's providers by the spec they were asked for with; filled by `setup`, inherited by every task's process."""


class OutOfMemory(NormbenchError):
    """Report that a task asked for more memory than there was."""


class CheckTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the providers of a case to be checked against the oracle."""

    case: Case
    conditions: Conditions
    providers: tuple[str, ...]
    seed: int


class BlockTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for one block of turns of the providers of a case."""

    case: Case
    conditions: Conditions
    providers: tuple[str, ...]
    plan: Plan
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


class BlockResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one block's samples by arm, and the device's state while they were taken."""

    timer: str
    blocks: dict[str, Block]
    device_state: dict[str, Any] | None = None


def setup(specs: tuple[str, ...]) -> None:
    """Load the providers once, in the server; nothing is computed and CUDA is not touched, so that forks stay clean."""
    import torch

    # The server itself must stay single-threaded: an OpenMP pool does not survive a fork.
    torch.set_num_threads(1)
    registry = Registry()
    for spec in specs:
        _providers[spec] = registry.resolve(spec)
    if any(provider.name == "compile" for provider in _providers.values()) and not os.environ.get("TRITON_INTERPRET"):
        # Importing the compiler takes seconds; do it once here, not in every task.
        import torch._dynamo
        import torch._inductor.compile_fx

        if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
            # What a first compilation finds out about versions, C++ compiler and processor holds for every task: a cached kernel then
            # takes 0.4 s to load instead of 3.4. Where a GPU is in sight the compiler would look at it, too.
            with torch.no_grad():
                torch.compile(lambda x: x + 1)(torch.ones(1))


def _prepare_process(conditions: Conditions, case: Case, pages: Pages) -> Any:
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
    return torch.device(conditions.device)


def _settings(case: Case) -> dict[str, Any]:
    settings: dict[str, Any] = {"grad_mode": "enabled" if case.pass_.has_backward else "no_grad"}
    if case.pass_ is Pass.BACKWARD:
        settings |= {"retain_graph": True, "donated_buffer": False}
    return settings


def _synchronise(device: Any) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def _is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The CPU allocator has no exception type of its own.
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _failure(provider: str, error: BaseException) -> CheckResult:
    if _is_out_of_memory(error):
        return CheckResult(provider=provider, status=Status.OOM, reason=f"ran out of memory: {_first_line(error)}")
    return CheckResult(provider=provider, status=Status.ERROR, reason=f"{type(error).__name__}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["(no message)"])[0][:500]


def check(task: CheckTask, emit: Callable[[Any], None]) -> None:
    """Run every provider once, compare it with the oracle, and emit ("begin", provider) and then one CheckResult each."""
    from ..check import check as compare
    from ..check import describe_failure
    from ..kernels.interpret import rounds_to_nearest
    from ..problem import make_problem
    from ..workloads.op import make_call, make_forward, outputs_of, private_copies
    from .memory import measure_memory

    # Page state does not change a result, and fresh pages would make the check several times slower.
    device = _prepare_process(task.conditions, task.case, Pages.REUSED)
    problem = make_problem(task.case, device=device, seed=task.seed)
    outputs: dict[str, dict[str, Any]] = {}
    first_call_s: dict[str, float] = {}
    memory: dict[str, Memory] = {}
    for spec in task.providers:
        emit(("begin", spec))
        provider = _providers[spec]
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
            start = time.perf_counter()
            with rounds_to_nearest() if provider.is_interpreted(task.case, device.type) else nullcontext():
                outputs[spec] = outputs_of(own, function)
            _synchronise(device)
            first_call_s[spec] = time.perf_counter() - start
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
                settings={**_settings(task.case), **_providers[spec].settings(task.case)},
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


def block(task: BlockTask, emit: Callable[[Any], None]) -> None:
    """Take one block of turns and emit one BlockResult. Raises OutOfMemory when the tensors do not fit."""
    try:
        result = _take_block(task)
    except Exception as error:
        if _is_out_of_memory(error):
            raise OutOfMemory(_first_line(error)) from None
        raise
    emit(result)


def _take_block(task: BlockTask) -> BlockResult:
    import torch

    from ..problem import make_problem
    from ..workloads.op import control_calls, make_call, private_copies
    from .cache import make_flush

    device = _prepare_process(task.conditions, task.case, task.conditions.pages)
    timer = _make_timer(device)
    meter = _make_meter(device)
    rng = Random(task.seed)
    functions = {spec: _providers[spec].prepare(task.case) for spec in task.providers}
    cold = task.conditions.cache is Cache.COLD
    flush = make_flush(device) if cold else None
    collected: dict[str, list[Samples]] = {}
    schedule = None
    load = OtherLoad()
    repetition = 0
    while schedule is None or repetition < schedule.repetitions:
        start = time.perf_counter()
        # Where tensors lie relative to each other and to cache sets moves timings by percents: draw it afresh.
        ballast = torch.empty(rng.randrange(1, 2**20), dtype=torch.uint8)
        problem = make_problem(task.case, device=device, seed=task.seed + repetition)
        allocation_s = time.perf_counter() - start
        calls: dict[str, Call] = {}
        for spec, function in functions.items():
            own, restore = private_copies(problem, _providers[spec].mutates(task.case))
            calls[spec] = Call(run=make_call(own, function), before=_in_turn(restore, flush))
        calls |= {name: Call(run=run, before=flush) for name, run in control_calls(problem).items()}
        if schedule is None:
            for call in calls.values():
                # The first call compiles; it must not look like a slow first sample to the warm-up.
                call.prepare()
                call.run()
            _synchronise(device)
        start = time.perf_counter()
        costs = warm_up(calls, timer)
        if schedule is None:
            single = frozenset(arm for arm, call in calls.items() if call.before is not None)
            setup_s = allocation_s + time.perf_counter() - start
            schedule = make_schedule(task.plan, costs, single=single, setup_s=setup_s)
            load = OtherLoad()
            if meter is not None:
                meter.start()
        for arm, samples in take_repetition(calls, timer, schedule, rng, process_page_faults).items():
            collected.setdefault(arm, []).append(samples)
        repetition += 1
        del problem, calls, ballast
    state = meter.stop() if meter is not None else None
    others = load.share()
    blocks = {arm: _as_block(samples, schedule.inner[arm], device, others) for arm, samples in collected.items()}
    return BlockResult(timer=timer.name, blocks=blocks, device_state=state)


def _make_timer(device: Any) -> Timer:
    if device.type != "cuda":
        return WallTimer()
    import torch

    return CudaTimer(device, torch.cuda)


def _make_meter(device: Any) -> PowerMeter | None:
    if device.type != "cuda":
        return None
    import torch

    from .power import PowerMeter

    return PowerMeter(f"GPU-{torch.cuda.get_device_properties(device).uuid}")


def _peak_gbps(properties: Any) -> float | None:
    """Return the memory bandwidth by clock and bus width, two transfers a clock; None where this PyTorch does not tell them."""
    clock_khz, width_bits = getattr(properties, "memory_clock_rate", None), getattr(properties, "memory_bus_width", None)
    return 2 * clock_khz * 1e3 * width_bits / 8 / 1e9 if clock_khz and width_bits else None


def describe_device(device_name: str, emit: Callable[[Any], None]) -> None:
    """Emit what is known of a device, or raise UsageError when it cannot be used."""
    import torch

    try:
        device = torch.device(device_name)
    except RuntimeError:
        raise UsageError(f"device {device_name!r} is not a device name such as cpu, cuda or cuda:1") from None
    if device.type == "cpu":
        emit({"type": "cpu"})
        return
    if device.type != "cuda":
        raise UsageError(f"device {device_name!r} is of type {device.type!r}; normbench measures cpu and cuda")
    if not torch.cuda.is_available():
        raise UsageError(f"device {device_name!r} asked for, and PyTorch {torch.__version__} finds no CUDA device here; use cpu")
    if (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device {device_name!r} asked for, and there are {torch.cuda.device_count()} CUDA devices, counted from 0")
    properties = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    emit(
        {
            "type": "cuda",
            "name": properties.name,
            "uuid": f"GPU-{properties.uuid}",
            "capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "peak_gbps": _peak_gbps(properties),
            "memory_bytes": total,
            "free_bytes": free,
        }
    )


def _in_turn(*steps: Callable[[], Any] | None) -> Callable[[], Any] | None:
    wanted = [step for step in steps if step is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None

    def run() -> None:
        for step in wanted:
            step()

    return run


def _as_block(repetitions: list[Samples], inner: int, device: Any, others_cpu_share: float | None) -> Block:
    calls = inner * sum(len(samples.time_s) for samples in repetitions)
    faults = sum(samples.page_faults for samples in repetitions)
    return Block(
        started_at=time.time(),
        inner=inner,
        samples_s=tuple(tuple(samples.time_s) for samples in repetitions),
        host_s=tuple(tuple(samples.host_s) for samples in repetitions) if device.type == "cuda" else None,
        page_faults_per_call=faults / calls if device.type == "cpu" else None,
        others_cpu_share=others_cpu_share,
    )
