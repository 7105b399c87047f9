"""`drift`: what a chain of random linear layers does to the size of a signal, and what one norm per layer does about it."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
import torch.nn.functional as F

from ..published import claim
from ..quantities.units import DASH
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import spread
from .study import Plan, Scale, Study

__all__ = ["DRIFT"]

WIDTH, LAYERS, BATCH, TOKENS, FIRST_SEED = 64, 20, 4, 16, 0
_ROOT = sqrt(WIDTH)
ENTRIES = {0.3: "0.3", 0.3 / _ROOT: "0.3/sqrt(d)", 1.2: "1.2", 0.36: "1.2 times 0.3", 1.2 / _ROOT: "1.2/sqrt(d)"}
"""Standard deviations of the entries of a matrix: the published 0.3, what the published list fits, and the readings of "1.2 times"."""
_SHOWN = (0, 1, 2, 4, 8, 20)


def _plan(scale: Scale) -> Plan:
    settings: list[Setting] = [{"entries": entries, "norm": "none"} for entries in ENTRIES]
    settings += [{"entries": entries, "norm": norm} for entries in list(ENTRIES)[:2] for norm in ("layer_norm", "rms_norm")]
    seeds = scale.seeds or 5
    return Plan(trials=tuple(Trial(setting=one, seed=FIRST_SEED + seed) for one in settings for seed in range(seeds)))


def _observe(trial: Trial, common: Setting) -> Observation:
    norm, entries = str(trial.setting["norm"]), float(trial.setting["entries"])
    generator = torch.Generator().manual_seed(trial.seed)
    x = torch.randn(BATCH, TOKENS, WIDTH, generator=generator)
    sizes = [_size(x)]
    for _ in range(LAYERS):
        x = x @ (torch.randn(WIDTH, WIDTH, generator=generator) * entries)
        if norm == "layer_norm":
            x = F.layer_norm(x, (WIDTH,))
        elif norm == "rms_norm":
            x = F.rms_norm(x, (WIDTH,), eps=1e-6)
        sizes.append(_size(x))
    values = {f"layer_{layer}": size for layer, size in enumerate(sizes)} | {"factor": (sizes[-1] / sizes[0]) ** (1 / LAYERS)}
    return Observation.of(DRIFT.name, trial, values=values, curves={"token norm": list(enumerate(sizes))})


def _size(x: torch.Tensor) -> float:
    """Return the mean L2 norm of the tokens of x (..., width)."""
    # In float64: the square of 1e20 has no place in float32.
    return float(torch.linalg.vector_norm(x.double(), dim=-1).mean())


def _says(observations: Sequence[Observation]) -> Findings:
    groups: dict[tuple[float, str], list[Observation]] = {}
    for one in observations:
        groups.setdefault((float(one.setting["entries"]), str(one.setting["norm"])), []).append(one)
    rows, sentences = [], []
    for (entries, norm), members in groups.items():
        first = members[0]
        shown = [_short(first.value(f"layer_{layer}")) for layer in _SHOWN]
        factor = spread(members, "factor")
        rows.append((ENTRIES[entries], norm, *shown, factor.text()))
        if norm == "none":
            sentences.append(
                f"Entries of {ENTRIES[entries]}: the token norm changes {factor.text()} times a layer; sqrt(d) times the entries' "
                f"standard deviation is {entries * _ROOT:.2f}."
            )
    printed = claim("drift-decay-scale-0-3").published
    rows.append(
        ("0.3, as published", "none", *(_short(float(printed[f"layer_{n}"])) if f"layer_{n}" in printed else DASH for n in _SHOWN), DASH)
    )
    columns = ("entries' standard deviation", "norm", "layer 0", "1", "2", "4", "8", "20", "factor per layer (over seeds)")
    lines = tuple(
        Line(name=f"{ENTRIES[entries]}, {norm}", points=tuple(Point(x, y) for x, y in members[0].curve("token norm")))
        for (entries, norm), members in groups.items()
    )
    published = tuple(Point(layer, float(printed[f"layer_{layer}"])) for layer in range(9))
    lines = (*lines, Line(name="0.3, as published", points=published, is_published=True))
    sentences.append(
        "The published list for entries of 0.3 falls to 0.3 times with each layer: it fits entries of 0.3/sqrt(d), and its zeros are "
        "rounding to two decimals."
    )
    return Findings(
        method=f"x is standard normal of shape ({BATCH}, {TOKENS}, {WIDTH}), float32, then {LAYERS} times x = x W with a fresh normal W, "
        f"and a norm without weight where named; no residual. Sizes are mean L2 norms of tokens; layer columns are of seed {FIRST_SEED}.",
        sentences=tuple(sentences),
        tables=(Table(title="Token norm by layer", columns=columns, rows=tuple(rows)),),
        panels=(Panel(title="Size of a signal through random layers", x="layer", y="mean token norm", lines=lines, log_y=True),),
    )


def _short(value: float) -> str:
    return f"{value:.2f}" if value == 0 or 0.005 <= value < 1e4 else f"{value:.1e}"


DRIFT = Study(name="drift", summary="size of a signal through 20 random linear layers", plan=_plan, observe=_observe, says=_says)
