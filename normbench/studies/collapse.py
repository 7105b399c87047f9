"""`collapse`: does a deep toy network train without norms, and if it does not, when does it break and what makes it?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf, log

from ..published import claim
from ..quantities.units import DASH
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, count_true, line, spread
from .rule import KEYS, LENGTH, NOISE, VOCABULARY, best_loss
from .study import Plan, Scale, Study
from .toy import HIDDEN, WIDTH, ToyNetwork
from .training import BATCH, STEPS, observe_training

__all__ = ["COLLAPSE"]

DEPTHS, QUICK_DEPTHS, QUICK_STEPS, SEEDS = (2, 4, 6, 12, 20), (6, 20), 100, 3
NORMS = ("none", "layer_norm", "rms_norm")
RATE = 1e-3
PUBLISHED, PUBLISHED_DEPTH = "as published", 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Say what a network has that the published sketch has not, or the other way round."""

    mixer: str = "linear"
    final_norm: bool | None = None
    residual: bool = True
    optimiser: str = "adam"


SETUPS = {
    PUBLISHED: Setup(),
    "no final norm": Setup(final_norm=False),
    "no residual, no final norm": Setup(final_norm=False, residual=False),
    "running means as mixer": Setup(mixer="mean"),
    "running means, no final norm": Setup(mixer="mean", final_norm=False),
    "SGD": Setup(optimiser="sgd"),
    "SGD, no final norm": Setup(optimiser="sgd", final_norm=False),
}


def _plan(scale: Scale) -> Plan:
    depths = QUICK_DEPTHS if scale.quick else DEPTHS
    settings: list[Setting] = [{"depth": depth, "norm": norm, "rate": RATE, "setup": PUBLISHED} for depth in depths for norm in NORMS]
    deepest: Setting = {"depth": depths[-1], "norm": "none"}
    settings += [deepest | {"rate": rate, "setup": PUBLISHED} for rate in (1e-4, 1e-2)]
    settings += [deepest | {"rate": 0.1 if "SGD" in setup else RATE, "setup": setup} for setup in list(SETUPS)[1:]]
    settings += [deepest | {"rate": 1e-2, "setup": "no final norm"}]
    settings += [{"depth": depths[-1], "norm": "layer_norm", "rate": RATE, "setup": "running means as mixer"}]
    seeds = scale.seeds or (1 if scale.quick else SEEDS)
    trials = [Trial(setting=one, seed=seed, cost=float(one["depth"])) for one in settings for seed in range(seeds)]
    return Plan(trials=tuple(trials), common={"steps": scale.steps or (QUICK_STEPS if scale.quick else STEPS), "batch": BATCH})


def _observe(trial: Trial, common: Setting) -> Observation:
    setup = SETUPS[str(trial.setting["setup"])]

    def build() -> ToyNetwork:
        return ToyNetwork(
            int(trial.setting["depth"]),
            norm=str(trial.setting["norm"]),
            mixer=setup.mixer,
            final_norm=setup.final_norm,
            residual=setup.residual,
        )

    return observe_training(
        COLLAPSE.name, trial, build, steps=int(common["steps"]), rate=float(trial.setting["rate"]), optimiser=setup.optimiser
    )


def _says(observations: Sequence[Observation]) -> Findings:
    main = chosen(observations, setup=PUBLISHED, rate=RATE)
    deepest = max(int(one.setting["depth"]) for one in main)
    bare = chosen(observations, depth=deepest, norm="none")
    kinds = dict.fromkeys((str(one.setting["setup"]), float(one.setting["rate"])) for one in bare)
    search = [_departure(setup, rate, chosen(bare, setup=setup, rate=rate)) for setup, rate in kinds]
    depth_rows = []
    for depth, members in by(main, "depth").items():
        cells = [(spread(chosen(members, norm=norm), "final_loss").text(3), _printed(int(depth), norm)) for norm in NORMS]
        depth_rows.append((str(depth), *(text for pair in cells for text in pair)))
    start = spread(chosen(main, depth=deepest, norm="layer_norm"), "loss_0")
    broke = [one.value("first_nonfinite") < inf for one in chosen(main, depth=deepest, norm="none")]
    steps = int(max(x for x, _ in main[0].curve("validation loss")))
    panels = tuple(
        Panel(
            title=f"{depth} layers, Adam {RATE:g}",
            x="step",
            y="validation loss (nat)",
            lines=(
                *(line(norm, chosen(members, norm=norm), "validation loss") for norm in NORMS),
                *(_published_curves() if depth == PUBLISHED_DEPTH else ()),
            ),
        )
        for depth, members in by(main, "depth").items()
    )
    exits = Panel(
        title=f"Size of the trunk before the final norm, {deepest} layers",
        x="step",
        y="mean token norm",
        log_y=True,
        lines=tuple(line(norm, chosen(main, depth=deepest, norm=norm), "exit norm") for norm in NORMS),
    )
    return Findings(
        method=f"Next-token prediction: {VOCABULARY} tokens, {LENGTH} places; a sequence's first token names one of "
        f"{KEYS} permutations, each next token is that permutation of the one before, or with probability {NOISE:g} any "
        f"token. Width {WIDTH}, feed-forward {HIDDEN}, "
        f"linear mixer per position, final LayerNorm whatever the block norm, as the published code has it; default initialisation, batch "
        f"{BATCH}, {steps} steps. No predictor beats {best_loss(sees_key=True):.3f} nat, none that sees only the current token "
        f"{best_loss(sees_key=False):.3f}. Figures are means over seeds with 95 % intervals.",
        sentences=(
            f"Without norms, {deepest} layers at {RATE:g}: the loss became NaN in {count_true(broke)} within {steps} steps "
            "(published: NaN at about step 300).",
            _broken_by(bare, kinds),
            f"A network of {deepest} layers with LayerNorm starts at {start.text(3)}; ln {VOCABULARY} is "
            f"{log(VOCABULARY):.3f} (published: 4.16).",
        ),
        tables=(
            Table(
                title=f"Final validation loss by depth, Adam {RATE:g}",
                columns=("layers", *(word for norm in NORMS for word in (norm, "published"))),
                rows=tuple(depth_rows),
            ),
            Table(
                title=f"What breaks {deepest} layers without norms",
                columns=("setup", "rate", "start", "final loss", "NaN", "first NaN, step", "largest trunk"),
                rows=tuple(search),
            ),
        ),
        panels=(*panels, exits),
    )


def _broken_by(bare: Sequence[Observation], kinds: Collection[tuple[str, float]]) -> str:
    """Say which of the settings without norms became NaN, in how many seeds and when."""
    found = []
    for setup, rate in kinds:
        firsts = sorted(one.value("first_nonfinite") for one in chosen(bare, setup=setup, rate=rate))
        if broke := [first for first in firsts if first < inf]:
            found.append(f"{setup} at {rate:g} ({len(broke)} of {len(firsts)} seeds, from step {broke[0]:.0f})")
    which = " and ".join(found) or "none"
    return f"Of {len(kinds)} settings without norms that were tried these became NaN: {which}."


def _published_curves() -> tuple[Line, ...]:
    """Return the printed validation losses of 20 layers; their rule is not known, so only their shape can be compared."""
    found = []
    for norm, name in (("layer_norm", "toy-20-layernorm-curve"), ("rms_norm", "toy-20-rmsnorm-curve")):
        points = tuple(Point(float(step.removeprefix("loss_")), float(loss)) for step, loss in claim(name).published.items())
        found.append(Line(name=f"{norm}, published", points=points, is_published=True))
    return tuple(found)


def _printed(depth: int, norm: str) -> str:
    """Return the published final loss of a depth, as far as there is one."""
    printed = {
        (6, "none"): ("toy-6-no-norm-worse", "none"),
        (6, "layer_norm"): ("toy-6-no-norm-worse", "layer_norm"),
        (6, "rms_norm"): ("toy-6-no-norm-worse", "rms_norm"),
        (12, "none"): ("toy-12-no-norm-oscillates", "none"),
        (12, "layer_norm"): ("toy-12-no-norm-oscillates", "layer_norm"),
        (12, "rms_norm"): ("toy-12-no-norm-oscillates", "rms_norm"),
        (20, "layer_norm"): ("toy-20-layernorm-curve", "loss_3000"),
        (20, "rms_norm"): ("toy-20-rmsnorm-curve", "loss_3000"),
    }
    if (depth, norm) == (20, "none"):
        return f"NaN at step {claim('toy-20-no-norm-nan-at-300').published['first_nonfinite']:g}"
    found = printed.get((depth, norm))
    return DASH if found is None else f"{claim(found[0]).published[found[1]]:g}"


def _departure(setup: str, rate: float, members: Sequence[Observation]) -> tuple[str, ...]:
    firsts = sorted(one.value("first_nonfinite") for one in members)
    finite = [first for first in firsts if first < inf]
    steps = f"{finite[0]:.0f}{DASH}{finite[-1]:.0f}" if finite else "never"
    largest = max(one.value("largest_exit_norm") for one in members)
    start, end = spread(members, "loss_0"), spread(members, "final_loss")
    return setup, f"{rate:g}", start.text(), end.text(3), count_true([first < inf for first in firsts]), steps, f"{largest:.1e}"


COLLAPSE = Study(
    name="collapse",
    summary="a toy network of 2 to 20 layers without norms",
    plan=_plan,
    observe=_observe,
    says=_says,
    is_long=True,
    has_steps=True,
)
