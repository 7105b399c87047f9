"""One row of a run: case, conditions, provider, status, verdict and raw measurement, to and from one line of strict JSON. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import msgspec

from .case import Case, Conditions
from .errors import NormbenchError

__all__ = [
    "SCHEMA_VERSION",
    "Accuracy",
    "Block",
    "Measurement",
    "Memory",
    "Record",
    "Role",
    "Status",
    "StopReason",
    "decode_record",
    "encode_record",
]

SCHEMA_VERSION = 1
"""Raised when a reader of the old version would misread a record. Readers refuse newer files."""


class Status(StrEnum):
    """Say how a (case, provider) ended. Every status but `ok` comes with a reason."""

    OK = "ok"
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    OOM = "oom"
    ERROR = "error"
    THROTTLED = "throttled"
    INTERRUPTED = "interrupted"

    @property
    def is_measured(self) -> bool:
        """Say whether a record of this status carries samples that may be reported."""
        return self in (Status.OK, Status.THROTTLED)


class Role(StrEnum):
    """Tell a provider from a control: work of no provider that runs along, such as a plain copy of the same bytes."""

    PROVIDER = "provider"
    CONTROL = "control"


class StopReason(StrEnum):
    """Say why measuring ended: the interval was narrow enough, the budget was spent, or all planned blocks were done."""

    NARROW = "narrow"
    BUDGET = "budget"
    BLOCKS = "blocks"


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the error of one output or gradient against the float64 oracle.

    `error` is the figure that was judged (see `reference.py`), passed when it is at most `tolerance`; `max_abs` and `ulps` are
    null when there is no finite value. `nonfinite` counts elements that are not finite where the oracle is.
    """

    tensor: str
    dtype: str
    error: float | None
    tolerance: float
    max_abs: float | None
    ulps: float | None
    nonfinite: int
    passed: bool


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Hold bytes of one call: the peak above the inputs, and what autograd saves for backward. Null comes with `reason`."""

    peak_bytes: int | None = None
    saved_bytes: int | None = None
    reason: str | None = None


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the raw samples of one process: `samples_s[repetition][turn]`, seconds per call of device time (wall time on CPU).

    Sample k of repetition r belongs to the same turn for every provider of the group. `inner` calls make one sample. `host_s` has
    the same form and holds the time the host spent launching (CUDA only). `page_faults_per_call` counts minor faults (CPU only).
    """

    started_at: float
    inner: int
    samples_s: tuple[tuple[float, ...], ...]
    host_s: tuple[tuple[float, ...], ...] | None = None
    page_faults_per_call: float | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Hold all samples of one (case, provider) and how they were taken. Statistics are derived, see `stats.py`."""

    timer: str
    blocks: tuple[Block, ...]
    stop: StopReason


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Hold everything known of one (case, conditions, provider).

    `group` is shared by the records that took turns with each other; only those have a ratio of per-repetition medians.
    `first_call_s` is the cost of the first call: compilation included, never part of a sample. `settings` are what was changed for
    this provider to be timed (`donated_buffer`, `grad_mode`); `device_state` holds clocks, power and energy, null fields with reasons.
    """

    schema: int = SCHEMA_VERSION
    case_id: str
    case: Case
    conditions: Conditions
    provider: str
    role: Role = Role.PROVIDER
    status: Status
    reason: str | None = None
    group: str
    started_at: str
    seed: int
    first_call_s: float | None = None
    accuracy: tuple[Accuracy, ...] | None = None
    memory: Memory | None = None
    measurement: Measurement | None = None
    settings: dict[str, Any] = {}
    device_state: dict[str, Any] | None = None

    @property
    def key(self) -> str:
        """Return what identifies the record within a run."""
        return f"{self.case_id}@{self.conditions.id}#{self.provider}"


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """Return one line of strict JSON, without the newline.

    Raises NormbenchError when a record whose status is not `ok` has no reason, or a measured one has no samples.
    """
    if record.status is not Status.OK and not record.reason:
        raise NormbenchError(f"record {record.key} has status {record.status.value!r} and no reason: every status but ok needs one")
    if record.status.is_measured and record.measurement is None:
        raise NormbenchError(f"record {record.key} has status {record.status.value!r} and no measurement")
    return _encoder.encode(record)


def decode_record(line: bytes, *, origin: str) -> Record:
    """Parse one line made by `encode_record`; `origin` names file and line in errors.

    Raises NormbenchError for a line of a newer schema, a foreign line, or one with NaN or Infinity.
    """
    if match := re.match(rb'\{"schema":(\d+)', line):
        version = int(match[1])
        if version > SCHEMA_VERSION:
            raise NormbenchError(f"{origin}: schema {version} is newer than {SCHEMA_VERSION}, the newest this normbench reads: update normbench")
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NormbenchError(f"{origin}: not a normbench record ({error})") from None
