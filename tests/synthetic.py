"""Runs made up from known speeds, with the real Record classes and lognormal samples, the same on every call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from normbench.cases.case import Case, DType
from normbench.cases.conditions import Conditions
from normbench.cases.model_case import ModelCase
from normbench.records.measurement import Block, Measurement, Memory, StopReason
from normbench.records.record import ALLOCATE, COPY, NO_NORM, NORM_CALLS, Accuracy, Record, Role, Status
from normbench.storage.stored_run import Run, RunInfo, RunStatus

SHAPES = ((4, 128, 512), (8, 256, 1024), (16, 512, 2048), (32, 1024, 4096))
CPU = Conditions(device="cpu", threads=2)

NS_PER_BYTE = {"eager": 0.55, "aten": 0.16, "compile": 0.12, "copy": 0.10, "allocate": 0.05}
"""Made-up costs: compile is 1.33 times as fast as aten, eager 0.29 times."""

MACHINE = {
    "cpu_model": "Example CPU 9000",
    "cpu_isa": ["sse4_2", "avx", "avx2", "avx512f"],
    "cpus": 8,
    "cores": 2,
    "cpu_quota": None,
    "l2_bytes": 2**20,
    "l3_bytes": 32 * 2**20,
    "memory_gib": 16,
    "memory_limit_bytes": None,
    "kernel": "Linux 6.8",
    "os": "Example Linux 1",
    "gpus": None,
    "device": {"type": "cpu"},
    "reasons": {"cpu_quota": "no CPU quota is set", "memory_limit_bytes": "no memory limit is set", "gpus": "no NVML"},
}
VERSIONS = {"normbench": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "triton": "3.9.0"}
SETTINGS = {"budget_s": 8.0, "target_half_width": 0.01, "min_blocks": 5, "max_blocks": 10}
COMMAND = ["normbench", "run", "--grid", "seed", "--seed", "0"]


def measurement(
    time_s: float, *, seed: int = 0, name: str = "x", processes: int = 5, repetitions: int = 2, turns: int = 9, noise: float = 0.01
) -> Measurement:
    """Return lognormal samples around `time_s`; drift of process and repetition depends on `seed` alone, so turn-takers share it."""
    shared = np.random.default_rng(seed)
    own = np.random.default_rng([seed, crc32(name.encode())])
    blocks = []
    for number in range(processes):
        drift = shared.normal(0, 0.03)
        samples = tuple(
            tuple(float(value) for value in time_s * np.exp(drift + shared.normal(0, 0.01) + own.normal(0, noise, turns)))
            for _ in range(repetitions)
        )
        blocks.append(Block(started_at=1e9 + number, inner=4, samples_s=samples, page_faults_per_call=0.0))
    return Measurement(timer="perf_counter", blocks=tuple(blocks), stop=StopReason.NARROW)


def constant(time_s: float, *, processes: int = 3) -> Measurement:
    """Return samples that are all the same, be they sensible or not."""
    block = Block(started_at=1e9, inner=1, samples_s=((time_s,) * 3,) * 2)
    return Measurement(timer="perf_counter", blocks=(block,) * processes, stop=StopReason.BLOCKS)


def record(
    case: Case | ModelCase, provider: str = "aten", *, time_s: float | None = None, conditions: Conditions = CPU, **changes: Any
) -> Record:
    """Return the record of a provider, measured unless `status` says otherwise."""
    role = Role.CONTROL if provider in (COPY, ALLOCATE) else Role.PROVIDER
    cost = NS_PER_BYTE.get(provider, 0.14) * 1e-9 * max(1, case.numel) * case.dtype.itemsize * (1.3 if case.norm == "layer_norm" else 1.0)
    status = changes.get("status", Status.OK)
    fields: dict[str, Any] = {
        "case_id": case.id,
        "case": case,
        "conditions": conditions,
        "provider": provider,
        "role": role,
        "status": status,
        "group": f"{case.id}@{conditions.id}",
        "started_at": "2026-11-30T21:00:00+00:00",
        "seed": 0,
    }
    if status.is_measured:
        taken = measurement(cost + 5e-6 if time_s is None else time_s, seed=crc32(case.id.encode()), name=provider)
        fields["measurement"] = taken
        if role is Role.PROVIDER:
            rows = case.rows if isinstance(case, Case) else case.numel
            fields |= {"accuracy": (accuracy(case.dtype),), "memory": Memory(peak_bytes=4 * case.numel, saved_bytes=8 * rows)}
            fields["first_call_s"] = 2.5 if provider == "compile" else 0.01
    return Record(**(fields | changes))


def accuracy(dtype: DType = DType.FLOAT32, *, error: float | None = 0.25, tensor: str = "y") -> Accuracy:
    return Accuracy(
        tensor=tensor,
        dtype=dtype.value,
        error=error,
        tolerance=1.0,
        max_abs=1e-7,
        ulps=2.0,
        nonfinite=0,
        passed=error is not None and error <= 1,
    )


def group(
    case: Case, providers: Iterable[str] = ("eager", "aten", "compile"), *, conditions: Conditions = CPU, **times: float
) -> list[Record]:
    """Return what takes turns on one case: the providers, with `triton` unsupported when asked for, and the controls."""
    records = []
    for name in (*providers, COPY, ALLOCATE):
        if name == "triton" and conditions.device == "cpu":
            records.append(
                record(case, name, conditions=conditions, status=Status.UNSUPPORTED, reason="triton needs a GPU; this machine has none")
            )
        else:
            records.append(record(case, name, conditions=conditions, time_s=times.get(name)))
    return records


def cases(
    norms: Iterable[str] = ("layer_norm", "rms_norm"),
    passes: Iterable[str] = ("forward", "forward_backward"),
    shapes: Iterable[tuple[int, ...]] = SHAPES,
    dtypes: Iterable[str] = ("float32",),
) -> list[Case]:
    return [Case.make(norm, pass_, shape, dtype) for norm in norms for pass_ in passes for dtype in dtypes for shape in shapes]


def run(records: Iterable[Record], *, status: RunStatus = RunStatus.COMPLETE, planned: int | None = None, **changes: Any) -> Run:
    """Return a run of these records, as if read from disk."""
    records = tuple(records)
    return Run(
        info=info(status=status, planned=sum(one.role is Role.PROVIDER for one in records) if planned is None else planned, **changes),
        records=records,
        path=Path("made-up"),
    )


def info(**changes: Any) -> RunInfo:
    fields: Mapping[str, Any] = {
        "id": "20261130-205008-seed",
        "created_at": "2026-11-30T20:50:08+00:00",
        "command": COMMAND,
        "git_commit": "0123456789abcdef0123456789abcdef01234567",
        "seed": 0,
        "settings": SETTINGS,
        "machine": MACHINE,
        "versions": VERSIONS,
        "planned": 0,
    }
    return RunInfo(**(dict(fields) | changes))


def network(
    pass_: str = "forward",
    *,
    name: str = "gpt2",
    times: Mapping[tuple[str, str], float],
    without: float | None = None,
    calls: Mapping[str, Mapping[str, int]] | None = None,
    alone: Mapping[tuple[str, str], float] | None = None,
    noise: float = 0.001,
) -> list[Record]:
    """Return what a run has of one pass of a network: its arms by (norm, provider), the control, and its norms alone.

    Times are in seconds; `calls` has, by norm, how often each case of the op tier is called, `alone` the time of one call by (case id,
    provider).
    """
    group_id = f"{name}-{pass_}"
    seed = crc32(group_id.encode())
    found = []
    for (norm, provider), time_s in times.items():
        case = ModelCase.make(name, "tiny", norm, pass_, (2, 64))
        taken = measurement(time_s, seed=seed, name=f"{norm}{provider}", noise=noise)
        settings = {NORM_CALLS: dict((calls or {}).get(norm, {}))}
        found.append(record(case, provider, measurement=taken, group=group_id, settings=settings))
    if without is not None:
        taken = measurement(without, seed=seed, name=NO_NORM, noise=noise)
        found.append(record(found[0].case, NO_NORM, role=Role.CONTROL, measurement=taken, group=group_id))
    for (case_id, provider), time_s in (alone or {}).items():
        case = Case.from_id(case_id)
        taken = measurement(time_s, seed=crc32(case_id.encode()), name=provider, noise=noise)
        found.append(record(case, provider, measurement=taken))
    return found


def full_run() -> Run:
    """Return the whole seed grid, forward and forward_backward, with Triton unsupported: what a run on a CPU looks like."""
    return run([one for case in cases() for one in group(case, ("eager", "aten", "compile", "triton"))])
