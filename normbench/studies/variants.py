"""`variants`: QK-Norm, DeepNorm and Sandwich beside Pre-LN and Post-LN in deep networks: does it train, at which rates?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..models.blocks import Scheme
from .findings import Findings, Panel, Table
from .learning_rate import MARGIN, is_safe
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, line, spread
from .study import Plan, Scale, Study
from .toy import ToyNetwork
from .training import BATCH, observe_training

__all__ = ["VARIANTS"]

RATES, STEPS = (1e-4, 1e-3, 1e-2), 500
DEPTHS, SEEDS = (30, 100), 3
_CONTEST = {"depth": 100, "rate": 1e-3}, ("post", "deep_norm")
"""What DeepNorm is published for: training where Post-LN does not."""
QUICK_STEPS, QUICK_DEPTH, QUICK_RATES = 30, 12, (1e-3, 1e-2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Say where the norms stand, and whether queries and keys are normed too."""

    scheme: Scheme
    qk_norm: bool = False


KINDS = {
    "pre": Variant(scheme=Scheme.PRE),
    "post": Variant(scheme=Scheme.POST),
    "pre, qk": Variant(scheme=Scheme.PRE, qk_norm=True),
    "sandwich": Variant(scheme=Scheme.SANDWICH),
    "deep_norm": Variant(scheme=Scheme.DEEP_NORM),
}


def _plan(scale: Scale) -> Plan:
    depths, rates = ((QUICK_DEPTH,), QUICK_RATES) if scale.quick else (DEPTHS, RATES)
    settings: list[Setting] = [
        {"depth": depth, "variant": variant, "rate": rate} for depth in depths for variant in KINDS for rate in rates
    ]
    trials = [Trial(setting=one, seed=seed, cost=float(one["depth"])) for one in settings for seed in range(_seeds(one, scale))]
    return Plan(trials=tuple(trials), common={"steps": scale.steps or (QUICK_STEPS if scale.quick else STEPS), "batch": BATCH})


def _seeds(setting: Setting, scale: Scale) -> int:
    """Return three seeds where a trial is short or was published; one of 100 layers takes as long as three of 30."""
    contest, sides = _CONTEST
    is_published = contest.items() <= setting.items() and setting["variant"] in sides
    return scale.seeds or (1 if scale.quick or (setting["depth"] == DEPTHS[-1] and not is_published) else SEEDS)


def _observe(trial: Trial, common: Setting) -> Observation:
    variant = KINDS[str(trial.setting["variant"])]

    def build() -> ToyNetwork:
        return ToyNetwork(int(trial.setting["depth"]), scheme=variant.scheme, mixer="attention", qk_norm=variant.qk_norm)

    return observe_training(VARIANTS.name, trial, build, steps=int(common["steps"]), rate=float(trial.setting["rate"]))


def _says(observations: Sequence[Observation]) -> Findings:
    rows, sentences, panels = [], [], []
    for depth, deep in by(observations, "depth").items():
        for variant, members in by(deep, "variant").items():
            rates = by(members, "rate")
            safe = [f"{float(rate):g}" for rate, same in rates.items() if is_safe(same)]
            rows.append(
                (str(depth), str(variant), *(spread(same, "final_loss").text(2) for same in rates.values()), ", ".join(safe) or "none")
            )
        trained = {
            str(variant): sum(is_safe(same) for same in by(members, "rate").values()) for variant, members in by(deep, "variant").items()
        }
        total = len(by(deep, "rate"))
        sentences.append(
            f"At {depth} layers, rates at which it trains: {', '.join(f'{name} {n} of {total}' for name, n in trained.items())}."
        )
        panels.append(
            Panel(
                title=f"{depth} layers, Adam 1e-3",
                x="step",
                y="validation loss (nat)",
                lines=tuple(
                    line(str(variant), chosen(members, rate=1e-3), "validation loss") for variant, members in by(deep, "variant").items()
                ),
            )
        )
    shown = [f"at {float(rate):g}" for rate in by(observations, "rate")]
    steps = int(max(x for x, _ in observations[0].curve("validation loss")))
    return Findings(
        method=f"The task of `collapse`; layers of causal attention (4 heads) and feed-forward, LayerNorm (RMSNorm on queries and keys), "
        f"no positions, Adam, batch {BATCH}, {steps} steps, no warm-up. It trains where most seeds end finite and "
        f"{MARGIN:g} nat below their "
        "start. DeepNorm has its own initialisation, the others PyTorch's. Means over seeds with 95 % intervals; without an "
        "interval, one seed.",
        sentences=tuple(sentences),
        tables=(Table(title="Final validation loss", columns=("layers", "variant", *shown, "trains at"), rows=tuple(rows)),),
        panels=tuple(panels),
    )


VARIANTS = Study(
    name="variants",
    summary="QK-Norm, DeepNorm and Sandwich at 30 and 100 layers",
    plan=_plan,
    observe=_observe,
    says=_says,
    is_long=True,
    has_steps=True,
)
