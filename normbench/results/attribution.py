"""From what a norm saves alone to what it saves in a network: predicted by share, bounded, observed, and what is left over. Pure.

With T the time of a pass before a change, a and b the times of its norm calls before and after, each summed over
the calls as the op tier measures them at exactly these shapes, and T0 the time of the pass without norms (`record.NO_NORM`):

    share      a / T
    speed-up   a / b
    predicted  (a - b) / T = share * (1 - 1 / speed-up)        Amdahl, AFIPS 1967: the rest of the pass takes as long as before
    bound      1 - T0 / T                                      norms that cost nothing, measured in turns with the others
    observed   1 - T' / T                                      per-repetition ratios of calls that took turns
    residual   observed - predicted

Savings are fractions of T; below 0 the pass takes longer. The op tier's figures stem from other processes of the same run than T, and
those of two norms from different ones: they are independent. Two providers of one norm took turns, and the ratio of their times is told
better than either time: b is taken as a * ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ..cases.case import Case, Norm
from ..cases.conditions import Conditions
from ..cases.model_case import ModelCase
from ..quantities.estimate import Estimate
from ..records.record import NO_NORM, NORM_CALLS, Record, Role
from .derived import BASELINE, Result
from .rates import metric_ratio

__all__ = ["Attribution", "attribute", "norms_of_networks"]


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what one change of a network's norms saves, and what was to be expected of it.

    `before` and `after` are the records of the two arms: another norm by the same provider, or the same norm by another provider. A
    figure is null where it cannot be told, and `missing` says why. `calls` counts norm calls of a forward pass. `residual_per_call_s` is
    what a norm call saves in the network more than the op tier says, in seconds.
    """

    before: Record
    after: Record
    time: Estimate
    bound: Estimate | None = None
    observed: Estimate | None = None
    calls: int | None = None
    share: Estimate | None = None
    speedup: Estimate | None = None
    predicted: Estimate | None = None
    residual: Estimate | None = None
    missing: str | None = None

    @property
    def case(self) -> ModelCase:
        """Return the case before the change."""
        assert isinstance(self.before.case, ModelCase), self.before.key
        return self.before.case

    @property
    def is_of_norm(self) -> bool:
        """Say whether the norm is what changes, and not the provider."""
        return self.before.case.norm is not self.after.case.norm

    @property
    def residual_per_call_s(self) -> float | None:
        return self.residual.value * self.time.value / self.calls if self.residual and self.calls else None


def attribute(results: Iterable[Result]) -> list[Attribution]:
    """Return every change that a run tells of: LayerNorm to RMSNorm by each provider, and `aten` to each other provider.

    Only arms that took turns and were timed are compared, in the order of the results.
    """
    alone: _Alone = {}
    groups: dict[str, dict[tuple[Norm, str], Result]] = {}
    controls: dict[str, Record] = {}
    for one in results:
        record = one.record
        if one.time is None:
            continue
        if isinstance(record.case, Case):
            alone[record.case_id, record.conditions, record.provider, record.place] = one
        if not isinstance(record.case, ModelCase):
            continue
        if record.role is Role.PROVIDER:
            groups.setdefault(record.group, {})[record.case.norm, record.provider] = one
        elif record.provider == NO_NORM:
            controls[record.group] = record
    return [_attribute(before, after, controls.get(group), alone) for group, arms in groups.items() for before, after in _changes(arms)]


def norms_of_networks(results: Iterable[Result]) -> set[str]:
    """Return the ids of the op tier's cases that networks of the model tier call: they were measured for the networks' sake."""
    networks = (one.record for one in results if isinstance(one.record.case, ModelCase))
    return {case_id for record in networks for case_id in record.settings.get(NORM_CALLS) or ()}


_Alone = dict[tuple[str, Conditions, str, tuple[str, str]], Result]
_Calls = list[tuple[int, Result]]
"""How often a norm is called in a pass, and what the op tier says of it."""


def _changes(arms: Mapping[tuple[Norm, str], Result]) -> Iterator[tuple[Result, Result]]:
    for (norm, provider), result in arms.items():
        if norm is Norm.LAYER_NORM and (other := arms.get((Norm.RMS_NORM, provider))):
            yield result, other
    for (norm, provider), result in arms.items():
        if provider != BASELINE and (baseline := arms.get((norm, BASELINE))):
            yield baseline, result


def _attribute(before: Result, after: Result, control: Record | None, alone: _Alone) -> Attribution:
    assert before.time is not None
    made = Attribution(
        before=before.record,
        after=after.record,
        time=Estimate.of(before.time),
        bound=_saving(control, before.record) if control else None,
        observed=_saving(after.record, before.record),
    )
    old, new = (_norms_alone(one.record, alone) for one in (before, after))
    if old is None or new is None:
        return msgspec.structs.replace(made, missing="its norms were not all timed alone in this run")
    cost = Estimate.total(_scaled(_time(one), count) for count, one in old)
    speedup, gained = _after(old, new, cost)
    predicted = gained / made.time
    return msgspec.structs.replace(
        made,
        calls=sum(count for count, _ in old),
        share=cost / made.time,
        speedup=speedup,
        predicted=predicted,
        residual=made.observed - predicted if made.observed else None,
        missing=None if made.observed else "the two did not take turns",
    )


def _norms_alone(record: Record, alone: _Alone) -> _Calls | None:
    """Return the norm calls of a pass with the op tier's results, or None unless it has one for each."""
    calls = record.settings.get(NORM_CALLS)
    if not isinstance(calls, dict) or not calls:
        return None
    found = [(int(count), alone.get((case_id, record.conditions, record.provider, record.place))) for case_id, count in calls.items()]
    known = [(count, one) for count, one in found if one is not None]
    return known if len(known) == len(found) else None


def _after(old: _Calls, new: _Calls, cost: Estimate) -> tuple[Estimate, Estimate]:
    """Return how many times as fast the norm calls are after a change, and how many seconds they take less."""
    ratios = [_ratio(after.record, before.record) for (_, before), (_, after) in zip(old, new, strict=True)] if len(old) == len(new) else []
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) == len(old):
        one = Estimate(value=1.0, half=0.0)
        parts = [_scaled(_time(result) * (one - ratio), count) for (count, result), ratio in zip(old, known, strict=True)]
        # Of the time before only its size counts here: it stands above and below the line.
        rest = Estimate.total(_scaled(ratio, count * _time(result).value) for (count, result), ratio in zip(old, known, strict=True))
        return Estimate(value=cost.value, half=0.0) / rest, Estimate.total(parts)
    rest = Estimate.total(_scaled(_time(result), count) for count, result in new)
    return cost / rest, cost - rest


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return estimate * Estimate(value=factor, half=0.0)


def _time(result: Result) -> Estimate:
    assert result.time is not None
    return Estimate.of(result.time)


def _saving(after: Record, before: Record) -> Estimate | None:
    ratio = _ratio(after, before)
    return None if ratio is None else Estimate(value=1.0, half=0.0) - ratio


def _ratio(above: Record, below: Record) -> Estimate | None:
    """Return time(above) / time(below), or None where the two did not take turns."""
    ratio = metric_ratio(above, below)
    return None if ratio is None else Estimate.of(ratio)
