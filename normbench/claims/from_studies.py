"""Figures that studies yield: values of trials, differences and conditions of them seed by seed, and windows of learning rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from ..published import Claim
from ..quantities.units import count
from ..studies.learning_rate import SCHEMES, window
from ..studies.observation import Observation, Setting
from ..studies.over_seeds import chosen, count_true
from ..studies.spread import Spread, spread_of
from .context import Context
from .formula import Number, compute
from .verdict import Measured, Value

__all__ = ["from_study", "from_windows"]


def from_study(claim: Claim, context: Context) -> Measured | str:
    """Return figures of one study, or why there are none.

    Options: `study`; `setting`, which all picks share; `values`, names of figures to pick; `picks`, figures under other names, each with
    what it adds to the setting and the `value` it takes; `derive`, formulas over picks and over what was derived before, computed seed by
    seed; `seed` for one seed alone; `steps` and `seeds`, the fewest that will do: so many must give a judged figure that is finite, unless
    most of them do not, which is a result.
    """
    options = claim.options
    found = context.observed(options["study"])
    if isinstance(found, str):
        return found
    common, observations = found
    if waits := _too_little(options, common):
        return waits
    picks = {name: {"value": name} for name in options.get("values", ())} | options.get("picks", {})
    by_seed = {name: _picked(observations, options.get("setting", {}), pick) for name, pick in picks.items()}
    seeds = sorted(set.intersection(*(set(values) for values in by_seed.values())))
    if "seed" in options:
        seeds = [seed for seed in seeds if seed == options["seed"]]
    needed = options.get("seeds", 1)
    if len(seeds) < needed:
        return f"waits for more of the study: {len(seeds)} of {needed} seeds have all its figures; {_command(options)}"
    figures = _with_derived({name: [one[seed] for seed in seeds] for name, one in by_seed.items()}, options.get("derive", {}))
    for name in claim.bands():
        kept = _spread(figures[name]) if name in figures else None
        if kept is not None and kept.is_finite and kept.finite < needed:
            return f"waits for more of the study: {name} is finite in {kept.finite} of {needed} seeds; {_command(options)}"
    values = {name: _over_seeds(of_seeds) for name, of_seeds in figures.items()}
    where = f"study {options['study']}, " + (f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds")
    return Measured(values=values, where=where + (f", {common['steps']} steps" if "steps" in common else ""))


def _command(options: Mapping[str, Any]) -> str:
    return f"`normbench study {options['study']}`"


def _too_little(options: Mapping[str, Any], common: Setting) -> str | None:
    steps = common.get("steps")
    if "steps" in options and (not isinstance(steps, int) or steps < options["steps"]):
        return f"waits for more of the study: it has {steps} steps here, and the claim is about {options['steps']}; {_command(options)}"
    return None


def _picked(observations: Sequence[Observation], setting: Setting, pick: Mapping[str, Any]) -> dict[int, float]:
    """Return one figure by seed."""
    wanted = setting | {name: value for name, value in pick.items() if name != "value"}
    return {one.seed: one.value(pick["value"]) for one in chosen(observations, **wanted) if pick["value"] in one.values}


def _with_derived(picked: dict[str, list[float]], formulas: Mapping[str, str]) -> dict[str, list[Number]]:
    """Return the figures and what formulas give of them, seed by seed."""
    found: dict[str, list[Number]] = {name: list(values) for name, values in picked.items()}
    seeds = len(next(iter(picked.values())))
    rows = [{name: values[seed] for name, values in picked.items()} for seed in range(seeds)]
    for name, formula in formulas.items():
        found[name] = [compute(formula, row) for row in rows]
        for row, result in zip(rows, found[name], strict=True):
            row[name] = float(result)
    return found


def _spread(values: Sequence[Number]) -> Spread | None:
    """Return the spread of a figure, None of a condition."""
    return None if all(isinstance(value, bool) for value in values) else spread_of([float(value) for value in values])


def _over_seeds(values: Sequence[Number]) -> Value:
    """Return the mean with its interval, of a condition the share of seeds in which it holds, or a word where most seeds have no number."""
    one = _spread(values)
    if one is None:
        return Value(estimate=sum(values) / len(values), note=count_true([bool(value) for value in values]))
    lost = one.seeds - one.finite
    # A mean over the few trials that ended well would pass for a result of all of them.
    if one.mean is None or not one.is_finite:
        return Value(estimate="NaN" if any(map(isnan, values)) else "never", note=f"{lost} of {count(one.seeds, 'seed')}")
    return Value(estimate=one.mean, low=one.low, high=one.high, note=f"not finite in {lost} of {one.seeds} seeds" if lost else "")


def from_windows(claim: Claim, context: Context) -> Measured | str:
    """Return the width in decades of the safe window of each network of `learning-rate` without warm-up, or why there is none."""
    options = claim.options | {"study": "learning-rate"}
    found = context.observed("learning-rate")
    if isinstance(found, str):
        return found
    common, observations = found
    if waits := _too_little(options, common):
        return waits
    values = {}
    for depth in (12, 30):
        for scheme in SCHEMES:
            members = chosen(observations, depth=depth, scheme=scheme, warmup=0)
            seeds = len({one.seed for one in members})
            if seeds < options["seeds"]:
                return f"waits for more of the study: {scheme} {depth} has {seeds} of {options['seeds']} seeds; {_command(options)}"
            one = window(members)
            values[f"{scheme}_{depth}"] = Value(estimate=one.decades, note=one.text)
    return Measured(values=values, where=f"study learning-rate, {common['steps']} steps")
