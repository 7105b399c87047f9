"""A run as a pandas table, one row per record, for questions the report does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from .model_case import ModelCase
from .record import Role
from .results import Result, derive_results
from .store import LATEST, Run, read_run
from .tiers import AnyCase
from .traffic import flops

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
    "provider": _TEXT,
    "role": _TEXT,
    "status": _TEXT,
    "reason": _TEXT,
    "time_s": _NUMBER,
    "time_low_s": _NUMBER,
    "time_high_s": _NUMBER,
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

    Seconds, bytes and 1e9 bytes per second; ratios against aten only where both took turns. What was not measured is null
    (`isna()`), never 0. Raises NormbenchError as `read_run` does.
    """
    if not isinstance(run, Run):
        run = read_run(run)
    rows = [_row(result) for result in derive_results(run.records)]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _row(result: Result) -> dict[str, Any]:
    record = result.record
    case, conditions, memory, worst = record.case, record.conditions, record.memory, result.worst
    return _of_tier(case, is_provider=record.role is Role.PROVIDER and result.bytes_moved is not None) | {
        "key": record.key,
        "group": record.group,
        "case_id": record.case_id,
        "tier": case.tier.value,
        "norm": case.norm_label,
        "pass": case.pass_.value,
        "shape": case.shape_label,
        "numel": case.numel,
        "dtype": case.dtype.value,
        "device": conditions.device,
        "threads": conditions.threads,
        "cache": conditions.cache.value,
        "pages": conditions.pages.value,
        "provider": record.provider,
        "role": record.role.value,
        "status": record.status.value,
        "reason": record.reason,
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


def _of_tier(case: AnyCase, *, is_provider: bool) -> dict[str, Any]:
    """Return the columns that only cases of one tier have."""
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
