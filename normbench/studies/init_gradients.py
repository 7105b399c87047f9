"""`init-gradients`: the gradients of a deep network before its first step, layer by layer, by place and kind of its norms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from ..models.blocks import FeedForward, Scheme
from .findings import Findings, Panel, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, line, spread
from .rule import VOCABULARY, sequences
from .study import Plan, Scale, Study
from .toy import ToyNetwork

__all__ = ["INIT_GRADIENTS"]

DEPTHS, SCHEMES, NORMS, INITIALISATIONS, BATCH, SEEDS = (12, 30), ("pre", "post"), ("layer_norm", "rms_norm"), ("default", "xavier"), 32, 5


def _plan(scale: Scale) -> Plan:
    settings: list[Setting] = [
        {"depth": depth, "scheme": scheme, "norm": norm, "initialisation": initialisation}
        for initialisation in INITIALISATIONS
        for depth in DEPTHS
        for scheme in SCHEMES
        for norm in NORMS
    ]
    return Plan(trials=tuple(Trial(setting=one, seed=seed) for one in settings for seed in range(scale.seeds or SEEDS)))


def _observe(trial: Trial, common: Setting) -> Observation:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        scheme = Scheme(str(trial.setting["scheme"]))
        model = ToyNetwork(int(trial.setting["depth"]), scheme=scheme, norm=str(trial.setting["norm"]), mixer="attention")
        if trial.setting["initialisation"] == "xavier":
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight)
    tokens = sequences(BATCH, torch.Generator().manual_seed(trial.seed))
    torch.autograd.backward(F.cross_entropy(model(tokens[:, :-1]).reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1)))
    gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    last_weights = [f"{name}.2.weight" for name, part in model.named_modules() if isinstance(part, FeedForward)]
    layers = [float(torch.linalg.vector_norm(gradients[name])) for name in last_weights]
    everything = torch.cat([one.flatten() for one in gradients.values()]).double()
    values = {
        "first": layers[0],
        "last": layers[-1],
        "last_over_first": layers[-1] / layers[0],
        "variance": float(everything.var(correction=0)),
    }
    return Observation.of(INIT_GRADIENTS.name, trial, values=values, curves={"gradient": [(n + 1, size) for n, size in enumerate(layers)]})


def _says(observations: Sequence[Observation]) -> Findings:
    rows, ratios = [], []
    for initialisation, same in by(observations, "initialisation").items():
        for depth, deep in by(same, "depth").items():
            for scheme, members in by(deep, "scheme").items():
                variances = {norm: spread(arms, "variance") for norm, arms in by(members, "norm").items()}
                for norm, arms in by(members, "norm").items():
                    rows.append((str(initialisation), str(depth), str(scheme), str(norm), spread(arms, "last_over_first").text(3)))
                layer, rms = variances["layer_norm"].mean, variances["rms_norm"].mean
                assert layer is not None
                assert rms is not None
                ratios.append((str(initialisation), str(depth), str(scheme), f"{100 * (1 - rms / layer):.1f} %"))
    panels = tuple(
        Panel(
            title=f"Gradient of each feed-forward, {depth} layers, Xavier",
            x="layer",
            y="norm of the gradient",
            log_y=True,
            lines=tuple(
                line(str(scheme), members, "gradient")
                for scheme, members in by(chosen(observations, depth=depth, initialisation="xavier", norm="layer_norm"), "scheme").items()
            ),
        )
        for depth in DEPTHS
    )
    saved = [float(row[-1].removesuffix(" %")) for row in ratios]
    return Findings(
        method="Layers of causal attention (4 heads) and feed-forward, width 64, the task and loss of `collapse`, "
        f"{BATCH} sequences, before "
        "any step. A layer's gradient is that of its feed-forward's second weight. Variance: of all entries of all gradients. Means over "
        "seeds with 95 % intervals.",
        sentences=(
            f"RMSNorm's gradients have between {min(saved):.1f} and {max(saved):.1f} % less variance than LayerNorm's, "
            "the same seeds for both.",
        ),
        tables=(
            Table(
                title="Gradient of the last layer over that of the first",
                columns=("initialisation", "layers", "scheme", "norm", "last / first"),
                rows=tuple(rows),
            ),
            Table(
                title="How much less variance RMSNorm's gradients have",
                columns=("initialisation", "layers", "scheme", "less variance"),
                rows=tuple(ratios),
            ),
        ),
        panels=panels,
    )


INIT_GRADIENTS = Study(
    name="init-gradients", summary="gradients by layer before the first step, Pre-LN and Post-LN", plan=_plan, observe=_observe, says=_says
)
