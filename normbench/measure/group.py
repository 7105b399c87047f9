"""What is measured together, and what becomes of it: exactly one record for every provider asked for, whatever happens to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..cases.conditions import Conditions
from ..cases.tiers import AnyCase
from ..records.measurement import Measurement, Sustained
from ..records.record import Record, Role, Status
from .checking import CheckResult

__all__ = ["Arm", "Drafts", "Group"]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """Name one of those that take turns: a case, and the provider that computes it."""

    case: AnyCase
    provider: str

    @property
    def name(self) -> str:
        """Return what tells it from the others of its group: `aten` in the op tier, `rms_norm:aten` in the model tier."""
        return self.case.arm(self.provider)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Name what is measured together, under one set of conditions: arms whose cases share their `company`.

    `share` is what part of a plan's budget it gets.
    """

    arms: tuple[Arm, ...]
    conditions: Conditions
    share: float = 1.0

    @classmethod
    def of(cls, cases: Iterable[AnyCase], conditions: Conditions, providers: Iterable[str], *, share: float = 1.0) -> Group:
        """Return the group of every one of the cases by every one of the providers."""
        providers = tuple(providers)
        arms = tuple(Arm(case=case, provider=provider) for case in cases for provider in providers)
        assert len({arm.case.company for arm in arms}) <= 1, arms
        return cls(arms=arms, conditions=conditions, share=share)

    @property
    def case(self) -> AnyCase:
        """Return the first arm's case; what differs between those of a group is the norm, and in the op tier nothing."""
        return self.arms[0].case

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms)

    @property
    def id(self) -> str:
        """Return the id, e.g. `op/rms_norm/forward/8x64/float32@cpu/2t/warm/reused`."""
        return f"{self.case.company}@{self.conditions.id}"

    def record_key(self, arm: Arm) -> str:
        return f"{arm.case.id}@{self.conditions.id}#{arm.provider}"

    def record_keys(self) -> set[str]:
        return {self.record_key(arm) for arm in self.arms}


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
        self.sustained: dict[str, Sustained] = {}

    def settle(self, arms: Iterable[str], status: Status, reason: str) -> None:
        for name in arms:
            known = self.checks.get(name)
            base = known if known is not None else CheckResult(provider=name, status=status)
            self.checks[name] = msgspec.structs.replace(base, status=status, reason=reason)

    def peak_bytes(self, arms: Iterable[str]) -> int:
        """Return what the hungriest of these arms was seen to need at once, above its inputs; 0 where that is not known."""
        seen = (self.checks[name].memory for name in arms)
        return max((memory.peak_bytes or 0 for memory in seen if memory is not None), default=0)

    def records(self) -> list[Record]:
        controls = [Arm(case=self._group.case, provider=name) for name in self.measurements if name not in self.checks]
        asked = [self._record(arm, arm.name, Role.PROVIDER) for arm in self._group.arms]
        return asked + [self._record(arm, arm.provider, Role.CONTROL) for arm in controls]

    def _record(self, arm: Arm, name: str, role: Role) -> Record:
        result = self.checks[name] if role is Role.PROVIDER else CheckResult(provider=name, status=Status.OK)
        status, reason = result.status, result.reason
        measurement = self.measurements.get(name)
        sustained = self.sustained.get(name)
        seen = [*(state.get("throttle_reason") for state in self.device_states), sustained.throttled if sustained else None]
        throttled = sorted({reason for reason in seen if reason})
        if status is Status.OK and throttled:
            status, reason = Status.THROTTLED, f"the device slowed itself down: {', '.join(throttled)}"
        return Record(
            case_id=arm.case.id,
            case=arm.case,
            conditions=self._group.conditions,
            provider=arm.provider,
            role=role,
            status=status,
            reason=reason,
            group=self._id,
            started_at=self._started_at,
            seed=self._seed,
            metric=arm.case.metric,
            first_call_s=result.first_call_s,
            accuracy=result.accuracy,
            departure=result.departure,
            memory=result.memory,
            measurement=measurement,
            sustained=sustained,
            settings=result.settings,
            device_state={"blocks": self.device_states} if self.device_states else None,
        )
