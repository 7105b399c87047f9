"""The answer first: who wins where, by how much, and where no difference can be told. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from ..cases.case import Norm, Tier
from ..cases.shape import shape_text
from ..quantities.stats import Interval, independent_ratio
from ..quantities.units import DASH, join_words, number, ratio_text
from ..records.record import Role
from ..results.derived import BASELINE, Result
from ..text.markdown import escape
from .tables import Scope, ScopeResults, Table, fastest

__all__ = ["Answer", "NormRatio", "norm_answers", "norm_ratio_table", "norm_ratios", "scope_answer"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the sentences that answer one scope: who is fastest, and each provider against the baseline."""

    scope: Scope
    headline: str
    details: list[str]


def scope_answer(grid: ScopeResults) -> Answer:
    """Return who is fastest at how many shapes, and by how much each provider beats the baseline or not."""
    details = [sentence for name in grid.providers if name != BASELINE and (sentence := _against_baseline(grid, name))]
    return Answer(scope=grid.scope, headline=_headline(grid), details=details)


def _headline(grid: ScopeResults) -> str:
    winners, ties, compared = Counter[str](), Counter[str](), 0
    for shape in grid.shapes:
        names = fastest(grid.row(shape))
        compared += bool(names)
        if len(names) == 1:
            winners[names[0]] += 1
        elif names:
            ties[join_words(f"`{name}`" for name in sorted(names))] += 1
    if not compared:
        timed = {one.record.provider for one in grid.cells.values() if one.time}
        if not timed:
            return "nothing was timed"
        return f"nothing to compare: only {join_words(f'`{name}`' for name in sorted(timed))} was timed side by side"
    parts = [f"`{name}` at {count} of {compared}" for name, count in winners.most_common()]
    text = f"fastest is {join_words(parts)}" if parts else ""
    told = [f"{names} cannot be told apart at {count} of {compared}" for names, count in ties.most_common()]
    return "; ".join([*([text] if text else []), *told])


def _against_baseline(grid: ScopeResults, name: str) -> str | None:
    speedups = [(shape, one.speedup) for shape in grid.shapes if (one := grid.cells.get((shape, name))) and one.speedup]
    untold = Counter(one.speedup_missing for one in grid.cells.values() if one.record.provider == name and one.time and not one.speedup)
    parts = []
    if speedups:
        low, high = min(speedups, key=_estimate), max(speedups, key=_estimate)
        ends = [high] if low is high else [low, high]
        parts.append(" to ".join(f"{ratio_text(interval)} at {shape_text(shape)}" for shape, interval in ends))
        parts.append(_verdicts([interval for _, interval in speedups], faster="faster", slower="slower", above_is_faster=True))
    parts += [f"{reason} at {count}" for reason, count in untold.items() if reason]
    return f"`{name}`, times as fast as `{BASELINE}`: {'; '.join(parts)}" if parts else None


def _estimate(pair: tuple[tuple[int, ...], Interval]) -> float:
    return pair[1].estimate


def _verdicts(intervals: Sequence[Interval], *, faster: str, slower: str, above_is_faster: bool) -> str:
    """Count what the intervals say; an interval that contains 1 says that no difference can be told."""
    counts = Counter[str]()
    for interval in intervals:
        if interval.low is None:
            counts["a single measurement, so no interval,"] += 1
        elif not interval.excludes(1.0):
            counts["no difference that can be told"] += 1
        else:
            counts[faster if (interval.estimate > 1.0) is above_is_faster else slower] += 1
    order = [faster, slower, "no difference that can be told", "a single measurement, so no interval,"]
    if len(intervals) == 1:
        return next(iter(counts)).rstrip(",")
    return ", ".join(f"{word} at {counts[word]} of {len(intervals)}" for word in order if counts[word])


class NormRatio(msgspec.Struct, frozen=True, kw_only=True):
    """Hold RMSNorm's time over LayerNorm's, same shape and provider. The two did not take turns: the interval says so by its width."""

    scope: Scope
    provider: str
    shape: tuple[int, ...]
    ratio: Interval


def norm_ratios(results: Iterable[Result]) -> list[NormRatio]:
    """Return time(rms_norm) / time(layer_norm) wherever both were timed under the same conditions.

    They are different cases, measured one after the other: their intervals are independent.
    """
    timed = [one for one in results if one.record.role is Role.PROVIDER and one.time and one.record.case.tier is Tier.OP]
    layers: dict[tuple[object, ...], Result] = {}
    for result in timed:
        if result.record.case.norm is Norm.LAYER_NORM:
            layers.setdefault(_counterpart(result), result)
    return [
        NormRatio(
            scope=Scope.of(result.record),
            provider=result.record.provider,
            shape=result.op_case.shape,
            ratio=independent_ratio(result.time, layer.time),
        )
        for result in timed
        if result.record.case.norm is Norm.RMS_NORM and (layer := layers.get(_counterpart(result))) and result.time and layer.time
    ]


def _counterpart(result: Result) -> tuple[object, ...]:
    """Return what a LayerNorm and an RMSNorm share when one could take the other's place."""
    record, case = result.record, result.op_case
    return case.tier, case.pass_, case.shape, case.dtype, case.weight_dtype, case.residual, record.conditions, record.provider, record.place


def norm_answers(ratios: Iterable[NormRatio]) -> list[str]:
    """Return one sentence per scope and provider: RMSNorm's time as a multiple of LayerNorm's."""
    grouped: dict[tuple[Scope, str], list[Interval]] = {}
    for one in ratios:
        grouped.setdefault((one.scope, one.provider), []).append(one.ratio)
    sentences = []
    for (scope, provider), intervals in grouped.items():
        estimates = sorted(interval.estimate for interval in intervals)
        spread = f"{number(estimates[0])}{DASH}{number(estimates[-1])} of LayerNorm's time, median {number(median(estimates))}"
        if len(intervals) == 1:
            spread = f"{ratio_text(intervals[0])} of LayerNorm's time"
        verdict = _verdicts(intervals, faster="less", slower="more", above_is_faster=False)
        sentences.append(f"{scope.title}, `{provider}`: {spread}; {verdict}")
    return sentences


def norm_ratio_table(ratios: Sequence[NormRatio]) -> Table:
    """Return the ratios of one scope, shapes down and providers across."""
    cells = {(one.shape, one.provider): one.ratio for one in ratios}
    shapes, providers = dict.fromkeys(one.shape for one in ratios), dict.fromkeys(one.provider for one in ratios)
    rows = [
        [shape_text(shape), *(ratio_text(cells[shape, name]) if (shape, name) in cells else DASH for name in providers)] for shape in shapes
    ]
    return Table(["shape", *map(escape, providers)], rows)
