"""What a record says beside the others of its group: time or rate, speed-up, bandwidth, share of allocation. Pure.

Ratios are taken only between records that took turns (one `group`). What cannot be said is null, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite

import msgspec

from ..cases.case import Case
from ..cases.conditions import Conditions
from ..cases.metric import Better
from ..cases.traffic import bytes_moved
from ..quantities.stats import Interval, pooled_samples, ratio_or_none, time_interval
from ..records.measurement import Measurement
from ..records.record import ALLOCATE, COPY, Accuracy, Record, Role
from .rates import metric_interval

__all__ = ["ANOTHER_FORMULA", "BASELINE", "NOT_SIDE_BY_SIDE", "Result", "derive_results", "error_fraction", "is_another_function"]

BASELINE = "aten"
NOT_SIDE_BY_SIDE = "not side by side"
ANOTHER_FORMULA = "another formula"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the figures derived from one record. Times in seconds, bandwidths in 1e9 bytes per second, shares as fractions.

    `speedup` is how many times as fast as the baseline it is: of a rate, how many times as much of it it has.
    `problem` says why a measured record has no time, `speedup_missing` why there is no speed-up. `copy_share` is the bandwidth
    over that of the copy in the same group; `allocation_share` the time to allocate the outputs over the time of the call.
    """

    record: Record
    time: Interval | None = None
    problem: str | None = None
    speedup: Interval | None = None
    speedup_missing: str | None = None
    bytes_moved: int | None = None
    gbps: float | None = None
    copy_gbps: float | None = None
    copy_share: float | None = None
    allocation_share: float | None = None
    worst: Accuracy | None = None

    @property
    def op_case(self) -> Case:
        """Return the case, which must be of the op tier."""
        assert isinstance(self.record.case, Case), self.record.key
        return self.record.case

    @property
    def rate(self) -> Interval | None:
        """Return what the record is judged by where more of it is better, in tokens per second; None for one judged by its time."""
        metric = self.record.metric
        return metric_interval(metric, self.time) if self.time is not None and metric.better is Better.MORE else None

    @property
    def processes(self) -> int | None:
        return len(self.record.measurement.blocks) if self.record.measurement else None

    @property
    def samples(self) -> int | None:
        if self.record.measurement is None:
            return None
        return sum(len(turns) for block in self.record.measurement.blocks for turns in block.samples_s)

    @property
    def worst_fraction(self) -> float | None:
        """Return the worst error as a fraction of its tolerance, or None when it was not judged or is not finite."""
        return error_fraction(self.worst) if self.worst else None


def derive_results(records: Iterable[Record]) -> list[Result]:
    """Return one result per record, in order."""
    records = list(records)
    groups: dict[tuple[str, str, Conditions], dict[str, Record]] = {}
    for record in records:
        groups.setdefault((record.group, record.case_id, record.conditions), {})[record.provider] = record
    elsewhere = {_address(record) for record in records if record.provider == BASELINE and _measured(record)}
    return [_derive(record, groups[record.group, record.case_id, record.conditions], _address(record) in elsewhere) for record in records]


def _address(record: Record) -> tuple[str, Conditions, str]:
    return record.case_id, record.conditions, record.machine


def is_another_function(record: Record) -> bool:
    """Say whether the record is of something else than its case's norm, so that it is put beside no other."""
    return record.departure is not None and record.departure.definition.is_another_function


def error_fraction(accuracy: Accuracy) -> float | None:
    """Return error / tolerance, or None when that is not a finite number."""
    if accuracy.error is None or not isfinite(accuracy.error):
        return None
    if accuracy.tolerance == 0.0:
        return 0.0 if accuracy.error == 0.0 else None
    return accuracy.error / accuracy.tolerance


def _derive(record: Record, group: dict[str, Record], baseline_elsewhere: bool) -> Result:
    worst = _worst(record)
    if not record.status.is_measured:
        return Result(record=record, speedup_missing=record.status.value, worst=worst)
    measurement = _measured(record)
    time = _time(measurement)
    if measurement is None or time is None:
        problem = "its samples are not all finite and positive: no time can be told"
        return Result(record=record, problem=problem, speedup_missing=problem, worst=worst)

    speedup, missing = None, "control"
    if record.role is Role.PROVIDER:
        baseline = _measured(group.get(BASELINE))
        speedup = ratio_or_none(baseline, measurement)
        missing = NOT_SIDE_BY_SIDE if baseline or baseline_elsewhere else f"{BASELINE} was not measured"
        if is_another_function(record):
            speedup, missing = None, ANOTHER_FORMULA

    moved = _bytes(record)
    copy, allocate = _control(group, COPY), _control(group, ALLOCATE)
    copy_bytes = 2 * record.case.numel * record.case.dtype.itemsize
    copy_time = _time(copy)
    over_copy = ratio_or_none(copy, measurement) if record.role is Role.PROVIDER else None
    over_allocate = ratio_or_none(allocate, measurement) if record.role is Role.PROVIDER else None
    return Result(
        record=record,
        time=time,
        speedup=speedup,
        speedup_missing=None if speedup else missing,
        bytes_moved=moved,
        gbps=moved / time.estimate / 1e9 if moved and not record.case.is_empty else None,
        copy_gbps=copy_bytes / copy_time.estimate / 1e9 if copy_time and copy_bytes else None,
        copy_share=over_copy.estimate * moved / copy_bytes if over_copy and moved and copy_bytes else None,
        allocation_share=over_allocate.estimate if over_allocate else None,
        worst=worst,
    )


def _measured(record: Record | None) -> Measurement | None:
    """Return the samples, or None where there are none or one is no time: zero, negative or not finite."""
    if record is None or record.samples is None:
        return None
    samples = pooled_samples(record.samples)
    return record.samples if samples and all(0 < sample < inf for sample in samples) else None


def _control(group: dict[str, Record], name: str) -> Measurement | None:
    record = group.get(name)
    return _measured(record) if record is not None and record.role is Role.CONTROL else None


def _bytes(record: Record) -> int | None:
    """Return the bytes the call moves at least; the model holds for one call of one norm, and allocation moves none to compare."""
    if record.role is Role.CONTROL:
        return 2 * record.case.numel * record.case.dtype.itemsize if record.provider == COPY else None
    return bytes_moved(record.case) if isinstance(record.case, Case) else None


def _time(measurement: Measurement | None) -> Interval | None:
    """Return the time with its interval, or None where samples are missing."""
    try:
        return None if measurement is None else time_interval(measurement)
    except ValueError:
        return None


def _worst(record: Record) -> Accuracy | None:
    """Return the judged tensor with the largest error relative to its tolerance; one with no finite error comes first."""
    if not record.accuracy:
        return None
    return max(record.accuracy, key=lambda one: (not one.passed, float("inf") if (share := error_fraction(one)) is None else share))
