"""`learning-rate`: at which rates do Pre-LN and Post-LN train, with and without warm-up? The safe window is found, not assumed."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log10

import msgspec

from ..models.blocks import Scheme
from ..published import claim
from ..quantities.units import DASH
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, line, spread
from .study import Plan, Scale, Study
from .toy import ToyNetwork
from .training import BATCH, STEPS, observe_training

__all__ = ["LEARNING_RATE", "SCHEMES", "Window", "is_safe", "window"]

DEPTHS, SCHEMES = (12, 30), ("post", "pre")
PUBLISHED_RATES, SEEDS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2), 3
"""What was published has as many seeds, Post-LN of 12 layers with warm-up too. The rest has one unless more are asked for, so that all
of it takes an hour."""
RATES = (1e-5, *PUBLISHED_RATES, 3e-2, 1e-1)
"""The published two decades, and beyond them on both sides: an edge that is not passed is no edge."""
WARM_RATES, WARMUP = (3e-4, 1e-3, 3e-3, 1e-2), 1000
QUICK_RATES, QUICK_STEPS = (1e-4, 1e-3, 1e-2), 60
MARGIN = 0.5
"""A run has trained whose loss ends at least this far, in nat, below where it began."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the longest stretch of neighbouring safe rates; null rates where none is. `is_open_…` says that the scan ended first."""

    low: float | None
    high: float | None
    is_open_below: bool = False
    is_open_above: bool = False

    @property
    def decades(self) -> float:
        """Return the width in decades, 0 for one safe rate or none."""
        return 0.0 if self.low is None or self.high is None else log10(self.high / self.low)

    @property
    def text(self) -> str:
        """Return e.g. `1e-04 to 1e-02, 2.0 decades`, with a sign where the scan ended before the window did."""
        if self.low is None or self.high is None:
            return "none"
        below, above = ("≤ " if self.is_open_below else ""), ("≥ " if self.is_open_above else "")
        more = " or more" if self.is_open_below or self.is_open_above else ""
        return f"{below}{self.low:.0e} to {above}{self.high:.0e}, {self.decades:.1f} decades{more}"


def is_safe(observations: Sequence[Observation]) -> bool:
    """Say whether most seeds ended finite and at least MARGIN below their start."""
    good = [isfinite(one.value("final_loss")) and one.value("final_loss") <= one.value("loss_0") - MARGIN for one in observations]
    return 2 * sum(good) > len(good)


def window(observations: Sequence[Observation]) -> Window:
    """Return the widest stretch of neighbouring safe rates of one network, from its observations at all rates."""
    safe = [(float(rate), is_safe(members)) for rate, members in sorted(by(observations, "rate").items())]
    best: list[float] = []
    current: list[float] = []
    for rate, good in safe:
        current = [*current, rate] if good else []
        if len(current) > len(best):
            best = current
    if not best:
        return Window(low=None, high=None)
    return Window(low=best[0], high=best[-1], is_open_below=best[0] == safe[0][0], is_open_above=best[-1] == safe[-1][0])


def _plan(scale: Scale) -> Plan:
    steps = scale.steps or (QUICK_STEPS if scale.quick else STEPS)
    warmup = min(WARMUP, steps // 3)
    depths = DEPTHS[:1] if scale.quick else DEPTHS
    settings: list[Setting] = [
        {"depth": depth, "scheme": scheme, "rate": rate, "warmup": warm}
        for depth in depths
        for scheme in SCHEMES
        for warm in (0, warmup)
        for rate in (QUICK_RATES if scale.quick else WARM_RATES if warm else RATES)
    ]
    trials = [Trial(setting=one, seed=seed, cost=float(one["depth"])) for one in settings for seed in range(_seeds(one, scale))]
    return Plan(trials=tuple(trials), common={"steps": steps, "batch": BATCH})


def _seeds(setting: Setting, scale: Scale) -> int:
    is_rescue = (setting["scheme"], setting["depth"]) == ("post", DEPTHS[0])
    is_published = setting["rate"] in PUBLISHED_RATES and (not setting["warmup"] or is_rescue)
    return scale.seeds or (SEEDS if is_published and not scale.quick else 1)


def _observe(trial: Trial, common: Setting) -> Observation:
    return observe_training(
        LEARNING_RATE.name,
        trial,
        lambda: ToyNetwork(int(trial.setting["depth"]), scheme=Scheme(str(trial.setting["scheme"]))),
        steps=int(common["steps"]),
        rate=float(trial.setting["rate"]),
        warmup=int(trial.setting["warmup"]),
    )


def _networks(observations: Sequence[Observation]) -> list[tuple[str, list[Observation]]]:
    found = []
    for depth, deep in by(observations, "depth").items():
        for scheme, members in by(deep, "scheme").items():
            for warmup, arms in by(members, "warmup").items():
                found.append((f"{scheme} {depth}" + (f", warm-up {warmup}" if warmup else ""), arms))
    return found


def _printed(name: str) -> dict[float, str]:
    """Return the published losses of a network without warm-up by rate, none where none were printed."""
    scheme, _, depth = name.partition(" ")
    if "warm-up" in name or depth not in ("12", "30"):
        return {}
    published = claim(f"lr-scan-{scheme}-ln-{depth}").published
    return {float(rate.removeprefix("at_").replace("_", "-")): f"{loss}" for rate, loss in published.items()}


def _says(observations: Sequence[Observation]) -> Findings:
    networks = _networks(observations)
    rates = sorted(float(rate) for rate in by(observations, "rate"))
    rows, windows, lines = [], [], []
    for name, members in networks:
        arms = {float(rate): spread(same, "final_loss") for rate, same in by(members, "rate").items()}
        rows.append((name, *(arms[rate].text(2) if rate in arms else DASH for rate in rates)))
        if printed := _printed(name):
            rows.append((f"{name}, published", *(printed.get(rate, DASH) for rate in rates)))
        best = (
            min((one.mean, rate) for rate, one in arms.items() if one.mean is not None) if any(one.mean for one in arms.values()) else None
        )
        found = window(members)
        windows.append((name, found.text, f"{best[0]:.3f} at {best[1]:g}" if best else "NaN"))
        points = tuple(Point(rate, one.mean, one.low, one.high) for rate, one in sorted(arms.items()) if one.mean is not None)
        lines.append(Line(name=name, points=points))
    steps = int(max(x for x, _ in observations[0].curve("validation loss")))
    return Findings(
        method=f"The toy network of `collapse` with LayerNorm, 12 and 30 layers, Adam, batch {BATCH}, {steps} steps, "
        "warm-up linear. A rate is "
        f"safe at which most seeds end finite and at least {MARGIN:g} nat below their start; a window is the longest "
        "stretch of neighbouring "
        "safe rates, and open where the scan ended first. Means over seeds with 95 % intervals; without an interval, one seed.",
        sentences=tuple(f"{name}: safe window {shown}; best loss {best}." for name, shown, best in windows),
        tables=(
            Table(title="Final validation loss by rate", columns=("network", *(f"{rate:g}" for rate in rates)), rows=tuple(rows)),
            Table(title="Safe windows", columns=("network", "safe rates", "best loss"), rows=tuple(windows)),
        ),
        panels=(
            Panel(title="Final loss by learning rate", x="learning rate", y="validation loss (nat)", log_x=True, lines=tuple(lines)),
            Panel(
                title="Loss at 1e-3",
                x="step",
                y="validation loss (nat)",
                lines=tuple(
                    line(name, chosen(members, rate=1e-3), "validation loss") for name, members in networks if chosen(members, rate=1e-3)
                ),
            ),
        ),
    )


LEARNING_RATE = Study(
    name="learning-rate",
    summary="safe learning rates of Pre-LN and Post-LN",
    plan=_plan,
    observe=_observe,
    says=_says,
    is_long=True,
    has_steps=True,
)
