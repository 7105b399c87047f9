"""Figures that runs yield: times of single norms in the op tier, savings of whole networks in the model tier, with their bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from ..cases.case import Case, DType, Norm, Pass
from ..cases.model_case import ModelCase
from ..cases.shape import parsed_shape
from ..cases.traffic import bytes_moved
from ..models.networks import network, networks
from ..published import Claim
from ..quantities.estimate import Estimate
from ..quantities.stats import Interval, independent_ratio
from ..quantities.units import join_words
from ..results.attribution import Attribution, attribute
from ..results.derived import Result
from ..results.rates import metric_ratio
from .context import Context
from .sources import find
from .verdict import Bound, Measured, Value

__all__ = ["from_model", "from_op", "from_providers"]

BY_HAND, BUILT_IN = "eager", "aten"
COPY_MARGIN = 2.0
"""How much faster than the copy beside it a norm may be before its bandwidth is called impossible: caches serve the two differently."""


def from_op(claim: Claim, context: Context) -> Measured | str:
    """Return times of the framework's LayerNorm and of RMSNorm by hand at one `shape`, or the savings over several `shapes`.

    The two are cases of their own, measured in rotation and not in turns: their intervals are independent.
    """
    shapes = claim.options.get("shapes", [claim.options.get("shape")])
    arms = [(_case(norm, text), by) for text in shapes for norm, by in ((Norm.LAYER_NORM, BUILT_IN), (Norm.RMS_NORM, BY_HAND))]
    groups = context.results([(case,) for case, _ in arms], (BUILT_IN, BY_HAND), threads=1)
    if isinstance(groups, str):
        return groups
    timed: list[Result] = []
    for (case, provider), group in zip(arms, groups, strict=True):
        one = find(group, case, provider)
        if one is None or one.time is None:
            return f"was not timed here: {(one.problem or one.record.reason) if one else case.id}"
        timed.append(one)
    where = f"op tier, {', '.join(shapes)}, float32, forward, one CPU thread, warm cache, reused pages, no gradients recorded"
    pairs = list(zip(timed[::2], timed[1::2], strict=True))
    if len(pairs) > 1:
        saved = {
            text: _percent_saved(independent_ratio(_time(rms), _time(layer))) for text, (layer, rms) in zip(shapes, pairs, strict=True)
        }
        return Measured(values={"saved_percent": Value.over(saved)}, where=where)
    ((layer_one, rms_one),) = pairs
    ratio = independent_ratio(_time(rms_one), _time(layer_one))
    values = {
        "layer_norm_us": _microseconds(layer_one),
        "rms_norm_us": _microseconds(rms_one),
        "ratio": Value(estimate=ratio.estimate, low=ratio.low, high=ratio.high),
        "saved_percent": _percent_saved(ratio),
    }
    return Measured(
        values=values,
        where=where,
        bounds=tuple(
            _bandwidth_bound(one, name) for one, name in ((layer_one, "layer_norm_us"), (rms_one, "rms_norm_us")) if one.copy_gbps
        ),
    )


def _case(norm: Norm, shape: str, dtype: DType = DType.FLOAT32) -> Case:
    return Case.make(norm, Pass.FORWARD, parsed_shape(shape), dtype)


def _time(result: Result) -> Interval:
    assert result.time is not None
    return result.time


def _microseconds(result: Result) -> Value:
    time = _time(result)
    low, high = (None if bound is None else 1e6 * bound for bound in (time.low, time.high))
    return Value(estimate=1e6 * time.estimate, low=low, high=high)


def _percent_saved(ratio: Interval) -> Value:
    high, low = (None if bound is None else 100 * (1 - bound) for bound in (ratio.low, ratio.high))
    return Value(estimate=100 * (1 - ratio.estimate), low=low, high=high)


def _bandwidth_bound(result: Result, name: str) -> Bound:
    assert result.copy_gbps is not None
    moved = bytes_moved(result.op_case)
    least = 1e6 * moved / (COPY_MARGIN * result.copy_gbps * 1e9)
    rate = f"a copy beside it moves {result.copy_gbps:.3g} GB/s, and {COPY_MARGIN:g} times that is granted"
    text = f"{name} cannot be below {least:.3g} here: {rate}"
    return Bound(name=name, least=least, text=text)


def from_model(claim: Claim, context: Context) -> Measured | str:
    """Return what RMSNorm saves of a pass of whole networks, and what norms of no cost would: the span over the networks asked for."""
    options = claim.options
    known = {one.name for one in networks()}
    if lacking := [name for name in options["networks"] if name not in known]:
        return f"network {lacking[0]} is not among those of this version"
    provider, threads = options["provider"], context.cores
    both = [
        tuple(ModelCase.make(name, "tiny", norm, options["pass"], network(name).size("tiny")) for norm in Norm)
        for name in options["networks"]
    ]
    groups = context.results(both, (provider,), threads=threads)
    if isinstance(groups, str):
        return groups
    changes = [one for group in groups for one in attribute(group) if one.is_of_norm and one.after.provider == provider]
    if len({one.case.network for one in changes}) < len(options["networks"]) or any(
        one.observed is None or one.bound is None for one in changes
    ):
        timed = {one.case.network for one in changes}
        untimed = join_words(name for name in options["networks"] if name not in timed)
        return f"was not timed here with both norms and without any: {untimed or 'a control is missing'}"
    where = f"model tier, {join_words(options['networks'])}, tiny preset, {options['pass']}, float32, {threads} CPU threads, {provider}"
    return _savings(changes, where)


def _savings(changes: Sequence[Attribution], where: str) -> Measured:
    one = Estimate(value=1.0, half=0.0)
    hundred = Estimate(value=100.0, half=0.0)
    observed = {change.case.network: change.observed for change in changes if change.observed is not None}
    bounds = {change.case.network: change.bound for change in changes if change.bound is not None}
    figures = {
        "saved_percent": {name: hundred * value for name, value in observed.items()},
        "gained_percent": {name: hundred * (one / (one - value) - one) for name, value in observed.items()},
        "layer_norm_overhead_percent": {name: hundred * (one / (one - value) - one) for name, value in bounds.items()},
        "over_share_percent": {name: hundred * (value - bounds[name]) for name, value in observed.items()},
    }
    most = max(_span(value)[1] for value in bounds.values())
    limits = {"saved_percent": 100 * most, "gained_percent": 100 * (1 / (1 - most) - 1) if most < 1 else inf}
    texts = join_words(f"{name} {100 * value.value:.1f} %" for name, value in bounds.items())
    return Measured(
        values={name: _over_networks(estimates) for name, estimates in figures.items()},
        where=where,
        bounds=tuple(
            Bound(
                name=name,
                most=limit,
                text=f"{name} cannot exceed {limit:.3g}: norms of no cost would save {texts} (upper end of the interval)",
            )
            for name, limit in limits.items()
        ),
    )


def _over_networks(estimates: Mapping[str, Estimate]) -> Value:
    return Value.over({name: Value(estimate=one.value, low=one.low, high=one.high) for name, one in estimates.items()})


def _span(value: Estimate) -> tuple[float, float]:
    half = value.half or 0.0
    return value.value - half, value.value + half


def from_providers(claim: Claim, context: Context) -> Measured | str:
    """Return the speed of one provider over another's on a CUDA device, the two taking turns."""
    options = claim.options
    case = _case(Norm(options["norm"]), options["shape"], DType(options["dtype"]))
    names = (options["fast"], options["slow"])
    groups = context.results([(case,)], names, device="cuda")
    if isinstance(groups, str):
        return groups
    fast, slow = (find(groups[0], case, name) for name in names)
    if untimed := [str(one.problem or one.record.reason) for one in (fast, slow) if one is not None and one.time is None]:
        return f"was not timed here: {join_words(untimed)}"
    ratio = metric_ratio(fast.record, slow.record) if fast is not None and slow is not None else None
    if fast is None or ratio is None:
        return f"was not timed here side by side: {case.id} by {join_words(names)}"
    return Measured(
        values={options["figure"]: Value(estimate=ratio.estimate, low=ratio.low, high=ratio.high)},
        where=f"op tier, {case.id}, {fast.record.conditions.id}",
    )
