"""What is measured together, and what becomes of it: exactly one record for every provider asked for, whatever happens to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..case import Case, Conditions
from ..record import Measurement, Record, Role, Status
from .checking import CheckResult

__all__ = ["Drafts", "Group"]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Name what is measured together: one case under one set of conditions by several providers."""

    case: Case
    conditions: Conditions
    providers: tuple[str, ...]

    @property
    def id(self) -> str:
        """Return what the keys of the group's records begin with, e.g. `op/rms_norm/forward/8x64/float32@cpu/2t/warm/reused`."""
        return f"{self.case.id}@{self.conditions.id}"

    def record_keys(self) -> set[str]:
        return {f"{self.id}#{provider}" for provider in self.providers}


class Drafts:
    """Collect what becomes the records of one group."""

    def __init__(self, group: Group, seed: int) -> None:
        self._group = group
        self._seed = seed
        self._id = uuid.uuid4().hex
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.checks: dict[str, CheckResult] = {}
        self.measurements: dict[str, Measurement] = {}
        self.device_states: list[dict[str, Any]] = []

    def settle(self, providers: Iterable[str], status: Status, reason: str) -> None:
        for provider in providers:
            known = self.checks.get(provider)
            base = known if known is not None else CheckResult(provider=provider, status=status)
            self.checks[provider] = msgspec.structs.replace(base, status=status, reason=reason)

    def peak_bytes(self, providers: Iterable[str]) -> int:
        """Return what the hungriest of these providers was seen to need at once, above its inputs; 0 where that is not known."""
        seen = (self.checks[name].memory for name in providers)
        return max((memory.peak_bytes or 0 for memory in seen if memory is not None), default=0)

    def records(self) -> list[Record]:
        controls = [arm for arm in self.measurements if arm not in self.checks]
        return [self._record(name, Role.PROVIDER) for name in self._group.providers] + [
            self._record(name, Role.CONTROL) for name in controls
        ]

    def _record(self, name: str, role: Role) -> Record:
        result = self.checks[name] if role is Role.PROVIDER else CheckResult(provider=name, status=Status.OK)
        status, reason = result.status, result.reason
        measurement = self.measurements.get(name)
        throttled = sorted({state["throttle_reason"] for state in self.device_states if state.get("throttle_reason")})
        if status is Status.OK and throttled:
            status, reason = Status.THROTTLED, f"the device slowed itself down: {', '.join(throttled)}"
        return Record(
            case_id=self._group.case.id,
            case=self._group.case,
            conditions=self._group.conditions,
            provider=name,
            role=role,
            status=status,
            reason=reason,
            group=self._id,
            started_at=self._started_at,
            seed=self._seed,
            first_call_s=result.first_call_s,
            accuracy=result.accuracy,
            departure=result.departure,
            memory=result.memory,
            measurement=measurement,
            settings=result.settings,
            device_state={"blocks": self.device_states} if self.device_states else None,
        )
