"""One row of a run: case, conditions, provider, status, verdict and raw measurement, to and from one line of strict JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from math import isfinite
from typing import Any

import msgspec

from ..cases.conditions import Conditions
from ..cases.definition import Definition
from ..cases.metric import TIME, Metric
from ..cases.tiers import AnyCase
from ..errors import NormbenchError
from .measurement import Measurement, Memory, Ranks, Sustained

__all__ = [
    "ALLOCATE",
    "COPY",
    "NORM_CALLS",
    "NO_NORM",
    "SCHEMA_VERSION",
    "Accuracy",
    "Departure",
    "Record",
    "Role",
    "Status",
    "decode_record",
    "encode_record",
]

SCHEMA_VERSION = 1
"""Raised when a reader of the old version would misread a record. Readers refuse newer files."""


COPY = "copy"
"""The control that copies x into a ready buffer: the bandwidth this device has at this size, now."""
ALLOCATE = "allocate"
"""The control that allocates the outputs of the pass and touches each page: what of a call is memory allocation (CPU only)."""
NO_NORM = "no_norm"
"""The control that runs a network whose norms hand their input on: what a step costs without norms. Its outputs are nobody's."""
NORM_CALLS = "norm_calls"
"""The setting of a network's record that holds how often each case of the op tier, by its id, is called in one forward pass."""


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


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the error of one output or gradient against the float64 oracle.

    `error` is the figure that was judged (see `reference.py`), passed when it is at most `tolerance`; `max_abs` and `ulps` are
    null when there is no finite value, and so is `relative`, the norm of all deviations over that of the exact values, which is null
    too when rounding explains a norm as large as that. `nonfinite` counts elements that are not finite where the oracle is,
    `swallowed` those where the oracle has a NaN or an infinity and the output has not. `fault` says what kept a tensor from being
    judged: it is missing, unexpected, or of another dtype or shape.
    """

    tensor: str
    dtype: str
    error: float | None
    tolerance: float
    max_abs: float | None
    ulps: float | None
    nonfinite: int
    passed: bool
    fault: str | None = None
    relative: float | None = None
    swallowed: int = 0


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """Say that a provider computes another formula than the norm's, against which it was checked.

    `accuracy` is what the check against the norm's own formula gives: how far the two are apart.
    """

    definition: Definition
    accuracy: tuple[Accuracy, ...]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Hold everything known of one (case, conditions, provider).

    `metric` says what it is judged by and which way that is good; `sustained` is there for a rate, `ranks` for several processes.
    `group` is shared by the records that took turns with each other; only those have a ratio of per-repetition medians.
    `first_call_s` is the cost of the first call: compilation included, never part of a sample. `settings` are what was changed for
    this provider to be timed (`donated_buffer`, `grad_mode`); `device_state` holds clocks, power and energy, null fields with reasons.
    `machine` is the name that the machine it was taken on has in its run's table of machines, empty for the run's own; `node` is where
    in a cluster that was.
    """

    schema: int = SCHEMA_VERSION
    case_id: str
    case: AnyCase
    conditions: Conditions
    provider: str
    role: Role = Role.PROVIDER
    status: Status
    reason: str | None = None
    group: str
    started_at: str
    seed: int
    metric: Metric = TIME
    first_call_s: float | None = None
    accuracy: tuple[Accuracy, ...] | None = None
    departure: Departure | None = None
    memory: Memory | None = None
    measurement: Measurement | None = None
    sustained: Sustained | None = None
    ranks: Ranks | None = None
    settings: dict[str, Any] = {}
    device_state: dict[str, Any] | None = None
    machine: str = ""
    node: str = ""

    @property
    def asked(self) -> str:
        """Return what was asked for, on whichever machine."""
        return f"{self.case_id}@{self.conditions.id}#{self.provider}"

    @property
    def key(self) -> str:
        """Return what identifies the record within a run: what was asked for, and of which machine unless it is the run's own."""
        return f"{self.asked}@{self.machine}" if self.machine else self.asked

    @property
    def samples(self) -> Measurement | None:
        """Return the measurement if its samples may be reported, None otherwise."""
        return self.measurement if self.status.is_measured else None

    @property
    def place(self) -> tuple[str, str]:
        """Return where it was taken. Records of different places are never compared."""
        return self.machine, self.node


class _Version(msgspec.Struct):
    schema: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_version_decoder = msgspec.json.Decoder(_Version)


def _fault(record: Record) -> str | None:
    """Return what a record of its status must have and has not, or None."""
    status = record.status.value
    if record.status is not Status.OK and not record.reason:
        return f"status {status!r} without a reason: every status but ok needs one"
    if not record.status.is_measured:
        return None
    blocks = record.measurement.blocks if record.measurement is not None else ()
    if not blocks or not all(block.samples_s and all(block.samples_s) for block in blocks):
        return f"status {status!r} without samples"
    if any(sample <= 0 for block in blocks for turns in block.samples_s for sample in turns):
        return "a sample is not above 0 s: no call takes no time"
    return None


def _nonfinite(value: Any, path: str) -> str | None:
    """Return the path of the first number in nested builtins that is NaN or infinite, or None."""
    if isinstance(value, float):
        return None if isfinite(value) else path
    items: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        items = ((f"{path}.{name}", item) for name, item in value.items())
    elif isinstance(value, list | tuple):
        items = ((f"{path}[{place}]", item) for place, item in enumerate(value))
    return next((found for name, item in items if (found := _nonfinite(item, name)) is not None), None)


def encode_record(record: Record) -> bytes:
    """Return one line of strict JSON, without the newline.

    Raises NormbenchError when a record whose status is not `ok` has no reason, when a measured one has no samples or one that is not
    above 0, and for a value that JSON cannot hold: NaN, an infinity, or an object in `settings` or `device_state`.
    """
    fault = _fault(record)
    try:
        # Left to itself the encoder would write NaN as null, which says that it was never measured.
        if fault is None and (path := _nonfinite(msgspec.to_builtins(record), "record")):
            fault = f"NaN or an infinity at {path}: give null and a reason"
        if fault is None:
            return _encoder.encode(record)
    except TypeError as error:
        fault = str(error)
    raise NormbenchError(f"record {record.key} cannot be stored: {fault}")


def decode_record(line: bytes, *, origin: str) -> Record:
    """Parse one line made by `encode_record`; `origin` names file and line in errors.

    Raises NormbenchError for a line of a newer schema, a foreign line, one with NaN or Infinity, or one that `encode_record` would
    not have written.
    """
    try:
        version = _version_decoder.decode(line).schema
        if version > SCHEMA_VERSION:
            raise NormbenchError(
                f"{origin}: schema {version} is newer than {SCHEMA_VERSION}, the newest this normbench reads: update normbench"
            )
        record = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NormbenchError(f"{origin}: not a normbench record ({error})") from None
    if fault := _fault(record):
        raise NormbenchError(f"{origin}: {fault}")
    return record
