"""What several processes did together, beside one of them alone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

import msgspec

from ..cases.throughput_case import ThroughputCase
from ..quantities.stats import Interval, pooled_samples, ratio_interval, time_interval
from ..records.record import Record
from .rates import metric_interval

__all__ = ["Scaling", "scaling_note", "scaling_of"]


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what N processes that train together make of N times what one makes alone.

    `together` and `alone` are tokens per second, `together` of all ranks, by the slowest of every step. `efficiency` is together over
    N x alone, 1 where nothing is lost. Both took turns, so its interval is that of ratios. `slowest` is the rank that was last most
    often, in `slowest_share` of the steps, and `spread` the median over steps of (slowest - fastest) / slowest.
    """

    processes: int
    together: Interval
    alone: Interval
    efficiency: Interval
    slowest: int
    slowest_share: float
    spread: float


def scaling_of(record: Record) -> Scaling | None:
    """Return the figures of a record of several processes that was measured, None for any other."""
    ranks, known = record.ranks, record.measurement
    if ranks is None or known is None or not isinstance(record.case, ThroughputCase):
        return None
    steps = list(zip(*(pooled_samples(one) for one in ranks.each), strict=True))
    last = Counter(max(range(len(times)), key=times.__getitem__) for times in steps)
    slowest, count = min(last.items(), key=lambda one: (-one[1], one[0]))
    return Scaling(
        processes=len(ranks.each),
        together=metric_interval(record.metric, time_interval(known)),
        alone=metric_interval(record.case.metric, time_interval(ranks.alone)),
        # Tokens cancel: each rank trains the batch that the one alone does.
        efficiency=ratio_interval(ranks.alone, known),
        slowest=slowest,
        slowest_share=count / len(steps),
        spread=median((max(times) - min(times)) / max(times) for times in steps),
    )


def scaling_note(records: Sequence[Record]) -> str | None:
    """Return what a reader of these figures must know: that the ranks had too few cores, where that is so."""
    short = sorted(
        {
            (record.conditions.processes, record.conditions.threads, record.ranks.cores)
            for record in records
            if record.ranks is not None
            and record.conditions.device == "cpu"
            and record.conditions.processes * record.conditions.threads > record.ranks.cores
        }
    )
    if not short:
        return None
    shared = "; ".join(
        f"{n} processes of {t} {'thread' if t == 1 else 'threads'} on {c} {'core' if c == 1 else 'cores'}" for n, t, c in short
    )
    return f"Ranks shared cores ({shared}): their efficiency is that of sharing, not of scaling."
