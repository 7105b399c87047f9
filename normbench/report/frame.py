"""A run as a pandas table, one row per record, for questions the report does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..cases.traffic import flops
from ..records.record import NO_NORM, Record, Role
from ..results.derived import Result, derive_results
from ..results.rates import latencies, per_gib, sustained_rates
from ..storage.stored_run import LATEST, Run, read_run

__all__ = ["load"]

_TEXT = "str"
_COUNT = "Int64"
_NUMBER = "float64"
_FLAG = "boolean"

_COLUMNS = {
    "key": _TEXT,
    "group": _TEXT,
    "case_id": _TEXT,
    "tier": _TEXT,
    "network": _TEXT,
    "preset": _TEXT,
    "mode": _TEXT,
    "batch": _COUNT,
    "tokens": _COUNT,
    "sequence_tokens": _COUNT,
    "accumulation": _COUNT,
    "autocast": _TEXT,
    "checkpointing": _FLAG,
    "norm": _TEXT,
    "pass": _TEXT,
    "shape": _TEXT,
    "rows": _COUNT,
    "cols": _COUNT,
    "numel": _COUNT,
    "dtype": _TEXT,
    "weight_dtype": _TEXT,
    "bias": _FLAG,
    "residual": _FLAG,
    "eps": _NUMBER,
    "convention": _TEXT,
    "device": _TEXT,
    "threads": _COUNT,
    "cache": _TEXT,
    "pages": _TEXT,
    "nproc": _COUNT,
    "parallel": _TEXT,
    "provider": _TEXT,
    "role": _TEXT,
    "status": _TEXT,
    "reason": _TEXT,
    "metric": _TEXT,
    "better": _TEXT,
    "time_s": _NUMBER,
    "time_low_s": _NUMBER,
    "time_high_s": _NUMBER,
    "tokens_per_s": _NUMBER,
    "tokens_per_s_low": _NUMBER,
    "tokens_per_s_high": _NUMBER,
    "p50_s": _NUMBER,
    "p90_s": _NUMBER,
    "p99_s": _NUMBER,
    "sustained_tokens_per_s": _NUMBER,
    "joules_per_token": _NUMBER,
    "tokens_per_joule": _NUMBER,
    "tokens_per_s_per_gib": _NUMBER,
    "samples": _COUNT,
    "processes": _COUNT,
    "stop": _TEXT,
    "timer": _TEXT,
    "first_call_s": _NUMBER,
    "speedup_vs_aten": _NUMBER,
    "speedup_low": _NUMBER,
    "speedup_high": _NUMBER,
    "speedup_missing": _TEXT,
    "bytes_moved": _COUNT,
    "flops": _COUNT,
    "gbps": _NUMBER,
    "copy_gbps": _NUMBER,
    "copy_percent": _NUMBER,
    "allocation_percent": _NUMBER,
    "peak_bytes": _COUNT,
    "saved_bytes": _COUNT,
    "worst_tensor": _TEXT,
    "worst_error_of_tolerance": _NUMBER,
    "worst_max_abs": _NUMBER,
    "worst_ulps": _NUMBER,
    "nonfinite": _COUNT,
    "started_at": _TEXT,
    "seed": _COUNT,
    "machine": _TEXT,
    "node": _TEXT,
}


def load(run: Run | Path | str = LATEST) -> pd.DataFrame:
    """Return one row per record of a run, given as a Run, a path, a name, or `latest`.

    Seconds, bytes, joules and 1e9 bytes per second; ratios against aten only where both took turns, above 1 where a row is better.
    `tokens` is how many a call trains on, reads or writes, by all `nproc` processes that train together: to decode, one of each sequence.
    `sequence_tokens` is the length of a sequence, what `--tokens` asks for. Percentiles are of single calls. `norm` is null for the
    control `no_norm`, a network without norms, although its `case_id` is that of the case beside it. What was not measured, or means
    nothing in a tier, is null (`isna()`), never 0. Raises NormbenchError as `read_run` does.
    """
    if not isinstance(run, Run):
        run = read_run(run)
    rows = [_row(result) for result in derive_results(run.records)]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _row(result: Result) -> dict[str, Any]:
    record = result.record
    case, conditions, memory, worst = record.case, record.conditions, record.memory, result.worst
    tier = _of_tier(record, is_provider=record.role is Role.PROVIDER and result.bytes_moved is not None)
    return (
        tier
        | _rates(result)
        | {
            "key": record.key,
            "group": record.group,
            "case_id": record.case_id,
            "tier": case.tier.value,
            "norm": None if record.provider == NO_NORM else case.norm_label,
            "pass": case.pass_.value,
            "shape": case.shape_label,
            "numel": case.numel,
            "dtype": case.dtype.value,
            "device": conditions.device,
            "threads": conditions.threads,
            "cache": conditions.cache.value,
            "pages": conditions.pages.value,
            "nproc": conditions.processes,
            "parallel": conditions.parallel.value if conditions.parallel else None,
            "provider": record.provider,
            "role": record.role.value,
            "status": record.status.value,
            "reason": record.reason,
            "metric": record.metric.name,
            "better": record.metric.better.value,
            "time_s": result.time.estimate if result.time else None,
            "time_low_s": result.time.low if result.time else None,
            "time_high_s": result.time.high if result.time else None,
            "samples": result.samples,
            "processes": result.processes,
            "stop": record.measurement.stop.value if record.measurement else None,
            "timer": record.measurement.timer if record.measurement else None,
            "first_call_s": record.first_call_s,
            "speedup_vs_aten": result.speedup.estimate if result.speedup else None,
            "speedup_low": result.speedup.low if result.speedup else None,
            "speedup_high": result.speedup.high if result.speedup else None,
            "speedup_missing": result.speedup_missing,
            "bytes_moved": result.bytes_moved,
            "gbps": result.gbps,
            "copy_gbps": result.copy_gbps,
            "copy_percent": 100 * result.copy_share if result.copy_share is not None else None,
            "allocation_percent": 100 * result.allocation_share if result.allocation_share is not None else None,
            "peak_bytes": memory.peak_bytes if memory else None,
            "saved_bytes": memory.saved_bytes if memory else None,
            "worst_tensor": worst.tensor if worst else None,
            "worst_error_of_tolerance": result.worst_fraction,
            "worst_max_abs": worst.max_abs if worst else None,
            "worst_ulps": worst.ulps if worst else None,
            "nonfinite": sum(one.nonfinite for one in record.accuracy) if record.accuracy else None,
            "started_at": record.started_at,
            "seed": record.seed,
            "machine": record.machine,
            "node": record.node,
        }
    )


def _of_tier(record: Record, *, is_provider: bool) -> dict[str, Any]:
    """Return the columns that only cases of one tier have."""
    case = record.case
    if isinstance(case, ThroughputCase):
        return {
            "network": case.network,
            "preset": case.preset,
            "mode": case.mode.value,
            "batch": case.size[0],
            "tokens": case.tokens * record.conditions.processes,
            "sequence_tokens": case.size[1],
            "accumulation": case.accumulation,
            "autocast": case.autocast.value if case.autocast else None,
            "checkpointing": case.checkpointing,
        }
    if isinstance(case, ModelCase):
        return {"network": case.network, "preset": case.preset}
    return {
        "rows": case.rows,
        "cols": case.cols,
        "weight_dtype": case.weight_dtype.value if case.weight_dtype else None,
        "bias": case.bias,
        "residual": case.residual,
        "eps": case.eps,
        "convention": case.convention.value,
        "flops": flops(case) if is_provider else None,
    }


def _rates(result: Result) -> dict[str, Any]:
    """Return the columns of a record that is judged by a rate."""
    record, rate = result.record, result.rate
    if rate is None or record.measurement is None:
        return {}
    calls, sustained = latencies(record.measurement), sustained_rates(record.sustained, record.metric)
    return {
        "tokens_per_s": rate.estimate,
        "tokens_per_s_low": rate.low,
        "tokens_per_s_high": rate.high,
        "p50_s": calls.p50_s,
        "p90_s": calls.p90_s,
        "p99_s": calls.p99_s,
        "sustained_tokens_per_s": sustained.tokens_per_s,
        "joules_per_token": sustained.joules_per_token,
        "tokens_per_joule": sustained.tokens_per_joule,
        "tokens_per_s_per_gib": per_gib(rate, record.memory),
    }
