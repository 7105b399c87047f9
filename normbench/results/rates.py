"""What the seconds of calls say where more is better: rates, latencies, and what a token costs in energy and memory. Pure.

With n tokens a call, t its time, and a sustained run of c calls in d seconds for E joules:

    rate            n / t            its interval is that of t with the ends changed over
    of two arms     t' / t           per-repetition ratios of calls that took turns: above 1 the first has more
    sustained rate  c n / d          one arm by itself, so no interval and no ratio
    energy          E / (c n)        joules per token; tokens per joule are its inverse
    per gigabyte    n / t / peak     peak memory of a call above what was there before, in GiB
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import msgspec

from ..cases.metric import Better, Metric
from ..quantities.stats import Interval, pooled_samples, ratio_or_none
from ..records.measurement import Measurement, Memory, Sustained
from ..records.record import Record

__all__ = [
    "NOT_SUSTAINED",
    "QUANTILES",
    "Latencies",
    "SustainedRates",
    "latencies",
    "metric_interval",
    "metric_ratio",
    "per_gib",
    "rate_series",
    "sustained_rates",
]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
NOT_SUSTAINED = "it was not run by itself (--sustain 0)"
_GIB = 2**30
_CALLS_PER_POINT = 20
"""A call more or less is then 5 % of a point."""
_FEWEST_POINTS = 10


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Hold percentiles of the time of single calls, in seconds, and by name why one is null; `samples` is how many calls there were."""

    samples: int
    p50_s: float | None = None
    p90_s: float | None = None
    p99_s: float | None = None
    missing: dict[str, str] = {}

    def value_s(self, name: str) -> float | None:
        """Return the percentile of a name of `QUANTILES`, seconds."""
        return {"p50": self.p50_s, "p90": self.p90_s, "p99": self.p99_s}[name]


class SustainedRates(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what an arm did by itself, per token; `missing` and `energy_missing` say why rate or energy is null."""

    tokens_per_s: float | None = None
    joules_per_token: float | None = None
    tokens_per_joule: float | None = None
    source: str | None = None
    missing: str | None = None
    energy_missing: str | None = None


def metric_interval(metric: Metric, time: Interval) -> Interval:
    """Return the interval of a metric of which `time` is the interval of a call's seconds; for a rate the ends change over."""
    if metric.better is Better.LESS:
        return time
    low, high = (None if end is None else metric.value(end) for end in (time.high, time.low))
    return Interval(estimate=metric.value(time.estimate), low=low, high=high, level=time.level, unit=time.unit)


def metric_ratio(above: Record, below: Record) -> Interval | None:
    """Return metric(above) / metric(below) of two arms that took turns, or None where they did not or one was not measured.

    Above 1 the first has more of the metric: is faster where that is a rate, slower where it is a time.
    """
    assert above.metric == below.metric, (above.key, below.key)
    if above.group != below.group:
        return None
    if above.metric.better is Better.MORE:
        # Of two times the ratio of rates is the inverse.
        above, below = below, above
    return ratio_or_none(above.samples, below.samples)


def latencies(measurement: Measurement) -> Latencies:
    """Return the percentiles of single calls over all processes: the smallest sample that so large a share does not exceed.

    A percentile q is told where at least one call is to be expected beyond it, from 1 / (1 - q) samples on: 2, 10 and 100. It is
    one of the samples (nearest rank, definition 1 of Hyndman and Fan, The American Statistician 50, 1996, p. 361). None is told
    where a sample is the mean of several calls.
    """
    samples = sorted(pooled_samples(measurement))
    inner = max((block.inner for block in measurement.blocks), default=1)
    if inner > 1:
        return Latencies(samples=len(samples), missing=dict.fromkeys(QUANTILES, f"a sample is the mean of {inner} calls"))
    told: dict[str, float | None] = {}
    missing = {}
    for name, quantile in QUANTILES.items():
        needed = round(1 / (1 - quantile))
        if len(samples) < needed:
            told[name], missing[name] = None, f"{name} needs {needed} single calls"
        else:
            # Rounded before it is rounded up: 0.9 times 10 is a little more than 9 for a computer.
            told[name] = samples[max(1, ceil(round(quantile * len(samples), 6))) - 1]
    return Latencies(samples=len(samples), p50_s=told["p50"], p90_s=told["p90"], p99_s=told["p99"], missing=missing)


def sustained_rates(sustained: Sustained | None, metric: Metric) -> SustainedRates:
    """Return what the calls of one arm by itself were per second and per joule; `metric` is that of its record, a rate."""
    if sustained is None:
        return SustainedRates(missing=NOT_SUSTAINED, energy_missing=NOT_SUSTAINED)
    tokens = sustained.calls * metric.per_call
    if not tokens or sustained.duration_s <= 0:
        reason = sustained.reasons.get("calls", "it made no call in that time")
        return SustainedRates(missing=reason, energy_missing=reason)
    rate = tokens / sustained.duration_s
    if sustained.energy_j is None or sustained.energy_j <= 0:
        # A counter that has not moved in a short run says nothing, least of all that tokens are free.
        moved = "its counter did not move in that time" if sustained.energy_j is not None else "no reason was recorded"
        return SustainedRates(tokens_per_s=rate, energy_missing=sustained.reasons.get("energy_j", moved))
    return SustainedRates(
        tokens_per_s=rate,
        joules_per_token=sustained.energy_j / tokens,
        tokens_per_joule=tokens / sustained.energy_j,
        source=sustained.energy_source,
    )


def per_gib(rate: Interval, memory: Memory | None) -> float | None:
    """Return a rate over the peak memory of a call in GiB, or None where that is not known or nothing."""
    return rate.estimate / (memory.peak_bytes / _GIB) if memory is not None and memory.peak_bytes else None


def rate_series(sustained: Sustained, metric: Metric) -> list[tuple[float, float]]:
    """Return the rate of a sustained run over time: seconds since its start, and tokens per second since the point before.

    A point stands for the calls that ended since the one before, and may take several moments together. It has 20 calls or more, or a
    tenth of them where that is less. Where it is not recorded when calls ended it has 20: a call more or less between two moments would
    look like a change of the rate. What is left at the end has no point.
    """
    points: list[tuple[float, float]] = []
    before_s, before = 0.0, 0.0
    counts: Sequence[float | None] = sustained.series.get("calls", ())
    ends: Sequence[float | None] = sustained.series.get("ended_s", ())
    least = max(1, min(_CALLS_PER_POINT, sustained.calls // _FEWEST_POINTS)) if ends else _CALLS_PER_POINT
    for at_s, count, end_s in zip(sustained.at_s, counts, ends or sustained.at_s, strict=False):
        if count is not None and end_s is not None and count - before >= least and end_s > before_s:
            points.append((at_s, (count - before) * metric.per_call / (end_s - before_s)))
            before_s, before = end_s, count
    return points
