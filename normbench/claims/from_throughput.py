"""Figures of claims from the throughput tier: what RMSNorm gains in training and serving, what no norm at all would, and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..case import Norm
from ..conditions import Conditions
from ..models.networks import network
from ..published import Claim
from ..rates import metric_ratio
from ..record import NO_NORM, Record, Role
from ..stats import Interval
from ..throughput_case import Mode, ThroughputCase
from ..units import join_words
from .context import Context
from .verdict import Bound, Measured, Value

__all__ = ["from_throughput"]

_TRAINED_BATCH = 2
_SERVED_BATCHES = (1, 4, 16, 64)


def from_throughput(claim: Claim, context: Context) -> Measured | str:
    """Return what RMSNorm gains on LayerNorm in tokens per second, over the `modes` and batches of one `network`, by one `provider`.

    `gained_percent` is speed gained, `saved_percent` time saved, `memory_saved_percent` of the peak memory of a call. The span is that
    over all cases, each with its interval; the estimate is the middle one's. The bound is the network without norms.
    """
    options = claim.options
    threads, provider = context.cores, str(options["provider"])
    pairs = [_pair(str(options["network"]), Mode(mode), batch) for mode in options["modes"] for batch in _batches(Mode(mode))]
    results = context.results([case for pair in pairs for case in pair], (provider,), threads=threads)
    if isinstance(results, str):
        return results
    conditions = Conditions(device="cpu", threads=threads)
    records = [one.record for one in results]
    gains: dict[str, Interval] = {}
    most: dict[str, Interval] = {}
    memory: dict[str, float] = {}
    for layer_case, rms_case in pairs:
        name = f"{layer_case.mode.value} of batch {layer_case.size[0]}"
        layer, rms = (_record(records, case, provider, conditions) for case in (layer_case, rms_case))
        ratio = metric_ratio(rms, layer) if layer is not None and rms is not None else None
        if layer is None or rms is None or ratio is None:
            return f"was not timed here with both norms in turns: {layer_case.id} by {provider}"
        gains[name] = ratio
        if (bare := _control(records, layer)) is not None and (ceiling := metric_ratio(bare, layer)) is not None:
            most[name] = ceiling
        peaks = [one.memory.peak_bytes if one.memory is not None else None for one in (rms, layer)]
        if peaks[0] is not None and peaks[1]:
            memory[name] = 100 * (1 - peaks[0] / peaks[1])
    where = (
        f"throughput tier, {pairs[0][0].label}, {join_words(gains)}, {pairs[0][0].size[1]} tokens, float32, "
        f"{threads} CPU threads, {provider}, both norms in turns"
    )
    values = {
        "gained_percent": _over(gains, lambda ratio: 100 * (ratio - 1)),
        "saved_percent": _over(gains, lambda ratio: 100 * (1 - 1 / ratio)),
    }
    if memory:
        ordered = sorted(memory.values())
        values["memory_saved_percent"] = Value(estimate=ordered[len(ordered) // 2], low=ordered[0], high=ordered[-1])
    return Measured(values=values, where=where, bounds=_bounds(gains, most))


def _batches(mode: Mode) -> Iterable[int]:
    return (_TRAINED_BATCH,) if mode is Mode.TRAIN else _SERVED_BATCHES


def _pair(name: str, mode: Mode, batch: int) -> tuple[ThroughputCase, ThroughputCase]:
    """Return the case with LayerNorm and the one with RMSNorm, of the tiny preset."""
    size = (batch, network(name).size("tiny")[1])
    layer, rms = (ThroughputCase.make(name, "tiny", norm, mode, size) for norm in (Norm.LAYER_NORM, Norm.RMS_NORM))
    return layer, rms


def _record(records: Sequence[Record], case: ThroughputCase, provider: str, conditions: Conditions) -> Record | None:
    wanted = (case, provider, conditions, Role.PROVIDER)
    return next((one for one in records if (one.case, one.provider, one.conditions, one.role) == wanted), None)


def _control(records: Sequence[Record], beside: Record) -> Record | None:
    return next((one for one in records if one.provider == NO_NORM and one.group == beside.group), None)


def _over(ratios: dict[str, Interval], figure: Callable[[float], float]) -> Value:
    """Return a figure of the ratios: the middle one's, and the span over all of them with their intervals."""
    ordered = sorted(figure(one.estimate) for one in ratios.values())
    lows = [figure(one.estimate if one.low is None else one.low) for one in ratios.values()]
    highs = [figure(one.estimate if one.high is None else one.high) for one in ratios.values()]
    note = join_words(f"{name} {figure(one.estimate):.1f}" for name, one in ratios.items()) if len(ratios) > 1 else ""
    return Value(estimate=ordered[len(ordered) // 2], low=min(lows), high=max(highs), note=note)


def _bounds(gains: dict[str, Interval], most: dict[str, Interval]) -> tuple[Bound, ...]:
    """Return what norms of no cost would gain at most, where the network ran without norms in every case."""
    if set(most) != set(gains):
        return ()
    ratio = max(one.estimate if one.high is None else one.high for one in most.values())
    texts = join_words(f"{name} {100 * (one.estimate - 1):.1f} %" for name, one in most.items())
    limits = {"gained_percent": 100 * (ratio - 1), "saved_percent": 100 * (1 - 1 / ratio)}
    return tuple(
        Bound(
            name=name, most=limit, text=f"{name} cannot exceed {limit:.3g}: norms of no cost would gain {texts} (upper end of the interval)"
        )
        for name, limit in limits.items()
    )
