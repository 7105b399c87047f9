"""`statistics`: mean and standard deviation of the rows that LayerNorm and RMSNorm put out, by the mean of what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
import torch.nn.functional as F

from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, spread
from .study import Plan, Scale, Study

__all__ = ["STATISTICS"]

ROWS, WIDTH, SIGMA, FIRST_SEED = 1024, 512, 3.0, 7
MEANS = (0.0, 0.5, 1.5, 5.0, 50.0)


def _plan(scale: Scale) -> Plan:
    seeds = range(FIRST_SEED, FIRST_SEED + (scale.seeds or 5))
    norms = ("layer_norm", "rms_norm")
    return Plan(trials=tuple(Trial(setting={"mean": mean, "norm": norm}, seed=seed) for norm in norms for mean in MEANS for seed in seeds))


def _observe(trial: Trial, common: Setting) -> Observation:
    mean, norm = float(trial.setting["mean"]), trial.setting["norm"]
    x = SIGMA * torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(trial.seed)) + mean
    y = F.layer_norm(x, (WIDTH,)) if norm == "layer_norm" else F.rms_norm(x, (WIDTH,), eps=1e-6)
    root = sqrt(mean**2 + SIGMA**2)
    values = {
        "row_mean": float(y.mean(-1).mean()),
        "row_mean_sd": float(y.mean(-1).std()),
        "row_sd": float(y.std(-1).mean()),
        "row_sd_biased": float(y.std(-1, correction=0).mean()),
        "mean_square": float(y.square().mean()),
        "row_mean_in_theory": 0.0 if norm == "layer_norm" else mean / root,
        "row_sd_in_theory": 1.0 if norm == "layer_norm" else SIGMA / root,
    }
    values["row_mean_off_theory"] = abs(values["row_mean"] - values["row_mean_in_theory"])
    return Observation.of(STATISTICS.name, trial, values=values)


def _says(observations: Sequence[Observation]) -> Findings:
    names = ("row_mean", "row_mean_in_theory", "row_mean_sd", "row_sd", "row_sd_biased", "row_sd_in_theory")
    columns = (
        "norm",
        "input mean",
        "mean of row means",
        "in theory",
        "sd of row means",
        "row sd",
        "row sd, biased",
        "in theory",
        "mean of row means (over seeds)",
    )
    rows: list[tuple[str, ...]] = []
    lines = []
    for norm, members in by(observations, "norm").items():
        points = []
        for mean, same in by(members, "mean").items():
            row_mean = spread(same, "row_mean")
            rows.append((str(norm), f"{mean:g}", *(f"{same[0].value(name):.4f}" for name in names), row_mean.text(4)))
            if row_mean.mean is not None:
                points.append(Point(float(mean), row_mean.mean, row_mean.low, row_mean.high))
        lines.append(Line(name=str(norm), points=tuple(points)))
    off = max(one.value("row_mean_off_theory") for one in chosen(observations, norm="rms_norm"))
    return Findings(
        method=f"x = {SIGMA:g} * normal + mean of shape ({ROWS}, {WIDTH}), float32, no weight, eps 1e-5 and 1e-6. "
        "Standard deviations divide "
        f"by d - 1 where not called biased. Columns are of seed {FIRST_SEED}.",
        sentences=(
            f"RMSNorm keeps a mean of mu / sqrt(mu² + sigma²), to {off:.4f} over all means and seeds; LayerNorm keeps none.",
            "LayerNorm's 1.0010 is the estimator that divides by d - 1, sqrt(512 / 511); divided by d it is 1.0000.",
        ),
        tables=(Table(title="Rows of the output", columns=columns, rows=tuple(rows)),),
        panels=(Panel(title="Mean of the output's rows", x="mean of the input (sd 3)", y="mean of row means", lines=tuple(lines)),),
    )


STATISTICS = Study(name="statistics", summary="mean and sd of the rows that the norms put out", plan=_plan, observe=_observe, says=_says)
