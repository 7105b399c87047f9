"""`batch-contrast`: statistics over a ragged batch against statistics over one token: who is in it, how many, and what comes later."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..published import claim
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, spread
from .study import Plan, Scale, Study

__all__ = ["BATCH_CONTRAST"]

WIDTH, LENGTHS, FIRST_SEED = 64, (5, 12, 30, 200), 1
BATCHES, DRAWS = (4, 8, 16, 32, 64), 2000

_SETS = ("keep_4", "keep_2", "keep_1", "sequence_1", "sequence_2")


def _plan(scale: Scale) -> Plan:
    seeds = range(FIRST_SEED, FIRST_SEED + (scale.seeds or 5))
    settings: list[Setting] = [{"what": "kept"}, {"what": "leak"}]
    settings += [{"what": "noise", "batch": batch} for batch in BATCHES]
    return Plan(trials=tuple(Trial(setting=one, seed=seed) for one in settings for seed in seeds))


def _observe(trial: Trial, common: Setting) -> Observation:
    generator = torch.Generator().manual_seed(trial.seed)
    match trial.setting["what"]:
        case "kept":
            values = _kept(generator)
        case "leak":
            values = _leak(generator)
        case _:
            values = {"sd": _noise(int(trial.setting["batch"]), generator)}
    return Observation.of(BATCH_CONTRAST.name, trial, values=values)


def _kept(generator: torch.Generator) -> dict[str, float]:
    """Return mean and biased variance over all tokens of the first so many sequences, and of each of the first two alone."""
    sequences = [2 * torch.randn(length, WIDTH, generator=generator) + 1 for length in LENGTHS]
    values: dict[str, float] = {}
    sets = [(f"keep_{kept}", torch.cat(sequences[:kept])) for kept in (4, 2, 1)] + [(f"sequence_{n + 1}", sequences[n]) for n in (0, 1)]
    for name, entries in sets:
        values |= {f"{name}_mean": float(entries.mean()), f"{name}_var": float(entries.var(correction=0))}
    return values


def _leak(generator: torch.Generator) -> dict[str, float]:
    """Return by how much the output at the first token changes when only the last one does."""
    x = torch.randn(4, 16, WIDTH, generator=generator)
    other = x.clone()
    other[:, -1] += 3 * torch.randn(4, WIDTH, generator=generator)
    batch_norm, layer_norm = nn.BatchNorm1d(WIDTH).train(), nn.LayerNorm(WIDTH)

    def change(norm: nn.Module, one: Tensor, two: Tensor) -> float:
        return float((norm(one)[:, 0] - norm(two)[:, 0]).abs().max())

    def over_batch(x: Tensor) -> Tensor:
        y: Tensor = batch_norm(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return y

    with torch.no_grad():
        leaked = float((over_batch(x)[:, 0] - over_batch(other)[:, 0]).abs().max())
        return {"batch_norm": leaked, "layer_norm": change(layer_norm, x, other)}


def _noise(batch: int, generator: torch.Generator) -> float:
    """Return the standard deviation of a channel's batch mean, over draws of so many samples of unit variance."""
    return float(torch.randn(DRAWS, batch, generator=generator).mean(1).std())


def _says(observations: Sequence[Observation]) -> Findings:
    kept, leaks = chosen(observations, what="kept")[0], chosen(observations, what="leak")
    noise = {int(batch): spread(members, "sd") for batch, members in by(chosen(observations, what="noise"), "batch").items()}
    printed = claim("batch-statistics-by-kept-sequences").published | claim("per-sequence-statistics").published
    tokens = {name: sum(LENGTHS[: int(name[-1])]) if name.startswith("keep") else LENGTHS[int(name[-1]) - 1] for name in _SETS}
    return Findings(
        method=f"Sequences of {', '.join(map(str, LENGTHS))} tokens of width {WIDTH}, entries 2 * normal + 1, drawn in this order at seed "
        f"{FIRST_SEED}; variances divide by the count. Leak: (4, 16, {WIDTH}), the last token changed, BatchNorm in training mode over all "
        f"tokens. Noise: {DRAWS} draws of a batch of unit variance.",
        sentences=(
            "Changing only the last token moves BatchNorm's first output by "
            f"{spread(leaks, 'batch_norm').text(3)} "
            f"and LayerNorm's by {max(one.value('layer_norm') for one in leaks):g}.",
            "None of the published means and variances is that of this seed; their distance from 1 and 4 is less than "
            "chance would have it.",
            "The first sequence alone and the batch that keeps one sequence are one and the same set of numbers, so two different "
            "pairs of figures for them cannot both be right.",
        ),
        tables=(
            Table(
                title="Statistics of a ragged batch",
                columns=("entries", "mean", "published", "standard error", "variance", "published"),
                rows=tuple(
                    (
                        name,
                        f"{kept.value(f'{name}_mean'):.3f}",
                        f"{printed[f'{name}_mean']:.3f}",
                        f"{2 / (count * WIDTH) ** 0.5:.3f}",
                        f"{kept.value(f'{name}_var'):.3f}",
                        f"{printed[f'{name}_var']:.3f}",
                    )
                    for name, count in tokens.items()
                ),
            ),
            Table(
                title="Noise of a batch mean",
                columns=("batch", "standard deviation of the mean", "1/sqrt(batch)"),
                rows=tuple((str(batch), one.text(4), f"{batch**-0.5:.4f}") for batch, one in noise.items()),
            ),
        ),
        panels=(
            Panel(
                title="Noise of a batch's mean",
                x="batch",
                y="standard deviation",
                log_x=True,
                log_y=True,
                lines=(
                    Line(
                        name="measured",
                        points=tuple(Point(b, one.mean, one.low, one.high) for b, one in noise.items() if one.mean is not None),
                    ),
                    Line(name="1/sqrt(batch)", points=tuple(Point(b, b**-0.5) for b in noise)),
                ),
            ),
        ),
    )


BATCH_CONTRAST = Study(
    name="batch-contrast",
    summary="BatchNorm's batch against LayerNorm's token, on ragged batches",
    plan=_plan,
    observe=_observe,
    says=_says,
)
