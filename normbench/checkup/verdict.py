"""What a check-up says of one provider with one set of tensors, and of many together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..cases.adversary import Trial
from ..cases.case import Case, Convention
from ..records.record import Accuracy, Status

__all__ = ["Figures", "Verdict", "figures", "norm_label", "to_json", "worst_entry"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how a provider fared with a case in one trial.

    `rows_checked` may be fewer than the case has, in Triton's interpreter above all. `is_repeatable` says whether a second call gave
    the same bits, null where it was not tried.
    """

    provider: str
    case: Case
    trial: Trial
    status: Status
    reason: str | None = None
    rows_checked: int
    in_interpreter: bool = False
    is_repeatable: bool | None = None
    accuracy: tuple[Accuracy, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Say whether the verdict counts: not where float32 cannot hold the statistics, or where nothing was computed."""
        return self.status not in (Status.UNSUPPORTED, Status.SKIPPED) and not self.is_told_only

    @property
    def is_told_only(self) -> bool:
        """Say that the provider is wrong where whoever computes in float32 has to be."""
        return self.status is Status.WRONG and self.trial.values.is_past_float32

    @property
    def is_failure(self) -> bool:
        return self.is_judged and self.status is not Status.OK

    @property
    def label(self) -> str:
        """Return the case's id and what is out of the ordinary about its tensors."""
        return f"{self.case.id} {self.trial.label}".rstrip()


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the worst of several verdicts for one tensor: ulps of the output's dtype and relative norm; null where none had a value."""

    ulps: float | None
    relative: float | None


def worst_entry(verdict: Verdict) -> Accuracy | None:
    """Return the tensor that comes nearest to its limit, or goes furthest past it; None where there are no figures."""
    judged = [entry for entry in verdict.accuracy if entry.error is not None and entry.tolerance > 0]
    return max(judged, key=lambda entry: entry.error or 0.0, default=None)


def figures(verdicts: Iterable[Verdict], tensors: Sequence[str]) -> Figures:
    """Return the largest figures that any of the verdicts has for any of the tensors."""
    entries = [entry for verdict in verdicts for entry in verdict.accuracy if entry.tensor in tensors]
    return Figures(
        ulps=max((entry.ulps for entry in entries if entry.ulps is not None), default=None),
        relative=max((entry.relative for entry in entries if entry.relative is not None), default=None),
    )


def norm_label(case: Case) -> str:
    """Return norm and weight convention, e.g. `rms_norm llama`; the residual is left out."""
    return case.norm.value if case.convention is Convention.TORCH else f"{case.norm.value} {case.convention.value}"


def to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as values that JSON can hold: its case by id, no NaN."""
    found: dict[str, Any] = {
        "provider": verdict.provider,
        "case": verdict.case.id,
        "values": verdict.trial.values.value,
        "layout": verdict.trial.layout.value,
        "status": verdict.status.value,
        "judged": verdict.is_judged,
        "reason": verdict.reason,
        "rows": verdict.case.rows,
        "rows_checked": verdict.rows_checked,
        "in_interpreter": verdict.in_interpreter,
        "repeatable": verdict.is_repeatable,
        "accuracy": msgspec.to_builtins(verdict.accuracy),
    }
    return found
