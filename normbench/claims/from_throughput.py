"""Figures of claims from the throughput tier: what RMSNorm gains in training and serving, what no norm at all would, and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..cases.case import Norm
from ..cases.throughput_case import SERVED_BATCHES, Mode, ThroughputCase
from ..models.networks import network
from ..published import Claim
from ..quantities.stats import Interval
from ..quantities.units import join_words
from ..records.record import NO_NORM, Record
from ..results.rates import metric_ratio
from .context import Context
from .sources import Group, find
from .verdict import Bound, Measured, Value

__all__ = ["from_throughput"]

_TRAINED_BATCH = 2


def from_throughput(claim: Claim, context: Context) -> Measured | str:
    """Return what RMSNorm gains on LayerNorm in tokens per second, over the `modes` and batches of one `network`, by one `provider`.

    `gained_percent` is speed gained, `saved_percent` time saved, `memory_saved_percent` of the peak memory of a call. Each is
    a figure of several cases where there are more than one. The bound is the network without norms.
    """
    options = claim.options
    threads, provider = context.cores, str(options["provider"])
    pairs = [_pair(str(options["network"]), Mode(mode), batch) for mode in options["modes"] for batch in _batches(Mode(mode))]
    groups = context.results(pairs, (provider,), threads=threads)
    if isinstance(groups, str):
        return groups
    gains: dict[str, Interval] = {}
    most: dict[str, Interval] = {}
    memory: dict[str, Value] = {}
    for (layer_case, rms_case), group in zip(pairs, groups, strict=True):
        name = f"{layer_case.mode.value} of batch {layer_case.size[0]}"
        layer, rms = (_record(group, case, provider) for case in (layer_case, rms_case))
        ratio = metric_ratio(rms, layer) if layer is not None and rms is not None else None
        if layer is None or rms is None or ratio is None:
            return f"was not timed here with both norms in turns: {layer_case.id} by {provider}"
        gains[name] = ratio
        if (bare := _control(group)) is not None and (ceiling := metric_ratio(bare, layer)) is not None:
            most[name] = ceiling
        peaks = [one.memory.peak_bytes if one.memory is not None else None for one in (rms, layer)]
        if peaks[0] is not None and peaks[1]:
            memory[name] = Value(estimate=100 * (1 - peaks[0] / peaks[1]))
    where = (
        f"throughput tier, {pairs[0][0].label}, {join_words(gains)}, {pairs[0][0].size[1]} tokens, float32, "
        f"{threads} CPU threads, {provider}, both norms in turns"
    )
    values = {
        "gained_percent": _over(gains, lambda ratio: 100 * (ratio - 1)),
        "saved_percent": _over(gains, lambda ratio: 100 * (1 - 1 / ratio)),
    }
    if len(memory) == len(pairs):
        values["memory_saved_percent"] = Value.over(memory)
    return Measured(values=values, where=where, bounds=_bounds(gains, most))


def _batches(mode: Mode) -> Iterable[int]:
    return (_TRAINED_BATCH,) if mode is Mode.TRAIN else SERVED_BATCHES


def _pair(name: str, mode: Mode, batch: int) -> tuple[ThroughputCase, ThroughputCase]:
    """Return the case with LayerNorm and the one with RMSNorm, of the tiny preset."""
    size = (batch, network(name).size("tiny")[1])
    layer, rms = (ThroughputCase.make(name, "tiny", norm, mode, size) for norm in (Norm.LAYER_NORM, Norm.RMS_NORM))
    return layer, rms


def _record(group: Group, case: ThroughputCase, provider: str) -> Record | None:
    found = find(group, case, provider)
    return None if found is None else found.record


def _control(group: Group) -> Record | None:
    return next((one.record for one in group if one.record.provider == NO_NORM), None)


def _over(ratios: dict[str, Interval], figure: Callable[[float], float]) -> Value:
    """Return a figure of the ratios over all cases; it rises with the ratio."""
    return Value.over({name: _figure(one, figure) for name, one in ratios.items()})


def _figure(ratio: Interval, figure: Callable[[float], float]) -> Value:
    low, high = (None if end is None else figure(end) for end in (ratio.low, ratio.high))
    return Value(estimate=figure(ratio.estimate), low=low, high=high)


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
