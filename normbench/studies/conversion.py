"""`conversion`: how far a model is from itself once its LayerNorms are RMSNorms, and how much a few steps of fine-tuning mend."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models.conversion import convert_model
from ..models.networks import Network, network
from ..quantities.units import DASH
from .findings import Findings, Panel, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, line, spread
from .study import Plan, Scale, Study

__all__ = ["CONVERSION"]

NETWORKS, METHODS, SEEDS = ("gpt2", "vit", "bert"), ("copy", "fold"), 3
STEPS, QUICK_STEPS, RATE = 100, 10, 1e-4
_SHOWN = (0, 5, 10, 20, 50, 100)


def _plan(scale: Scale) -> Plan:
    settings: list[Setting] = [{"network": name, "method": method} for name in NETWORKS for method in METHODS]
    seeds = scale.seeds or (1 if scale.quick else SEEDS)
    trials = tuple(Trial(setting=one, seed=seed) for one in settings for seed in range(seeds))
    return Plan(trials=trials, common={"steps": scale.steps or (QUICK_STEPS if scale.quick else STEPS)})


def _observe(trial: Trial, common: Setting) -> Observation:
    found = network(str(trial.setting["network"]))
    model = found.build("tiny", dtype=torch.float64, seed=trial.seed)
    batch = found.batch("tiny", seed=trial.seed, dtype=torch.float64)
    conversion = convert_model(model, {"random": batch}, fold=trial.setting["method"] == "fold")
    with torch.no_grad():
        before, after = found.outputs(model, batch), found.outputs(conversion.model, batch)
    change = (after - before).abs().max()
    values = {
        "largest_change": float(change),
        "largest_change_in_sd": float(change / before.std()),
        "kl": _divergence(before, after),
        "norms": len(conversion.norms),
        "exact_norms": sum(one.is_exact for one in conversion.norms),
    }
    if trial.setting["method"] != "copy":
        return Observation.of(CONVERSION.name, trial, values=values)
    tuned = _fine_tuned(found, model, conversion.model, int(common["steps"]), trial.seed)
    values |= {"kl_before_tuning": tuned[0][1], "kl_after_tuning": tuned[-1][1]}
    return Observation.of(CONVERSION.name, trial, values=values, curves={"divergence": tuned})


def _divergence(before: Tensor, after: Tensor) -> float:
    """Return the mean Kullback-Leibler divergence in nats of the converted model's distribution from the model's own."""
    with torch.no_grad():
        own, other = before.log_softmax(-1).flatten(0, -2), after.log_softmax(-1).flatten(0, -2)
        return float(F.kl_div(other, own, reduction="batchmean", log_target=True).clamp_min(0))


def _fine_tuned(found: Network, model: nn.Module, twin: nn.Module, steps: int, seed: int) -> list[tuple[float, float]]:
    """Return the divergence on unseen input by step, the twin being taught the model's own outputs on fresh random input by Adam.

    In float32: what fine-tuning mends is far above its rounding.
    """
    teacher, pupil = copy.deepcopy(model).float(), copy.deepcopy(twin).float()
    unseen = found.batch("tiny", seed=10_000 + seed)
    optimiser = torch.optim.Adam(pupil.parameters(), RATE)
    curve = []
    for step in range(steps + 1):
        if step in _SHOWN or step == steps:
            with torch.no_grad():
                curve.append((float(step), _divergence(found.outputs(teacher, unseen), found.outputs(pupil, unseen))))
        if step == steps:
            break
        batch = found.batch("tiny", seed=20_000 + 1000 * seed + step)
        with torch.no_grad():
            wanted = found.outputs(teacher, batch).log_softmax(-1).flatten(0, -2)
        loss = F.kl_div(found.outputs(pupil, batch).log_softmax(-1).flatten(0, -2), wanted, reduction="batchmean", log_target=True)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return curve


def _says(observations: Sequence[Observation]) -> Findings:
    rows, sentences = [], []
    for name, members in by(observations, "network").items():
        for method, same in by(members, "method").items():
            exact = f"{same[0].value('exact_norms'):.0f} of {same[0].value('norms'):.0f}"
            after = f"{spread(same, 'kl_after_tuning').mean:.2e}" if "kl_after_tuning" in same[0].values else DASH
            change, kl = max(one.value("largest_change_in_sd") for one in same), max(one.value("kl") for one in same)
            rows.append((str(name), str(method), exact, f"{change:.2e}", f"{kl:.2e}", after))
        folded = max(one.value("largest_change") for one in chosen(members, method="fold"))
        copied = max(one.value("largest_change") for one in chosen(members, method="copy"))
        sentences.append(
            f"{name}: copying the weights moves an output by up to {copied:.2g}, folding as well by up to {folded:.2g} (float64)."
        )
    return Findings(
        method="Networks of random weights in the tiny preset, every LayerNorm made an RMSNorm. copy: weights kept, biases dropped. fold: "
        "centring and biases folded into the linear maps around a norm where they are known. Changes in float64, in standard deviations of "
        f"the outputs. Fine-tuning: Adam {RATE:g}, the model's own outputs as targets, fresh random inputs; divergence on unseen ones.",
        sentences=tuple(sentences),
        tables=(
            Table(
                title="Conversion of LayerNorm to RMSNorm",
                columns=("network", "method", "exact norms", "largest change (sd)", "divergence (nat)", "after fine-tuning"),
                rows=tuple(rows),
            ),
        ),
        panels=(
            Panel(
                title="Divergence from the model while a copy is fine-tuned",
                x="step",
                y="divergence (nat)",
                log_y=True,
                lines=tuple(
                    line(str(name), chosen(members, method="copy"), "divergence") for name, members in by(observations, "network").items()
                ),
            ),
        ),
    )


CONVERSION = Study(
    name="conversion",
    summary="LayerNorm made RMSNorm in a model, before and after fine-tuning",
    plan=_plan,
    observe=_observe,
    says=_says,
    has_steps=True,
)
