"""`residual-gradient`: what the identity path gives to a gradient, in one block and through a deep stack."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..published import claim
from ..quantities.units import DASH
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, spread
from .study import Plan, Scale, Study

__all__ = ["RESIDUAL_GRADIENT"]

WIDTH, FIRST_SEED = 64, 3
DEPTHS = (1, 5, 10, 20)


def _plan(scale: Scale) -> Plan:
    seeds = range(FIRST_SEED, FIRST_SEED + (scale.seeds or 100))
    one_block = [Trial(setting={"what": "one block"}, seed=seed) for seed in seeds]
    settings: list[Setting] = [
        {"what": "stack", "depth": depth, "residual": residual} for depth in DEPTHS for residual in ("with", "without")
    ]
    return Plan(trials=tuple(one_block + [Trial(setting=one, seed=seed) for one in settings for seed in seeds[:5]]))


def _observe(trial: Trial, common: Setting) -> Observation:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        values = (
            _one_block()
            if trial.setting["what"] == "one block"
            else _stack(int(trial.setting["depth"]), trial.setting["residual"] == "with")
        )
    return Observation.of(RESIDUAL_GRADIENT.name, trial, values=values)


def _branch() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))


def _one_block() -> dict[str, float]:
    branch = _branch()
    x = torch.randn(1, WIDTH, requires_grad=True)
    y = branch(x) + x
    (total,) = torch.autograd.grad(y.square().sum(), x)
    identity = 2 * y.detach()
    other = torch.randn(1, WIDTH, requires_grad=True)
    (without,) = torch.autograd.grad(branch(other).square().sum(), other)
    through_branch = total - identity
    return {
        "total": float(total.norm()),
        "identity": float(identity.norm()),
        "ratio": float(identity.norm() / total.norm()),
        "branch": float(through_branch.norm()),
        "projection": float((identity * total).sum() / total.square().sum()),
        "without": float(without.norm()),
    }


def _stack(depth: int, has_residual: bool) -> dict[str, float]:
    branches = [_branch() for _ in range(depth)]
    x = torch.randn(32, WIDTH, requires_grad=True)
    y: Tensor = x
    for branch in branches:
        y = y + branch(y) if has_residual else branch(y)
    (first,) = torch.autograd.grad(y.sum(), x)
    return {"first": float(first.norm())}


def _says(observations: Sequence[Observation]) -> Findings:
    single = chosen(observations, what="one block")
    names = ("total", "identity", "ratio", "branch", "projection", "without")
    words = (
        "norm of dL/dx",
        "norm of the identity term 2y",
        "quotient of the two norms",
        "norm of the term through F",
        "share of dL/dx that the identity term gives (projection)",
        "norm of dL/dx without residual, another x",
    )
    printed = {
        name: f"{value:g}"
        for one in ("residual-gradient-norms", "residual-identity-share", "no-residual-gradient-norm")
        for name, value in claim(one).published.items()
    }
    rows = []
    for name, word in zip(names, words, strict=True):
        values = sorted(one.value(name) for one in single)
        rows.append(
            (
                word,
                printed.get(name, DASH),
                f"{single[0].value(name):.4f}",
                spread(single, name).text(3),
                f"{values[0]:.3f}{DASH}{values[-1]:.3f}",
            )
        )
    lines, stack_rows = [], []
    for residual in ("with", "without"):
        points = []
        for depth, members in by(chosen(observations, what="stack", residual=residual), "depth").items():
            values = [one.value("first") for one in members]
            points.append(Point(int(depth), sorted(values)[len(values) // 2], min(values), max(values)))
            stack_rows.append((str(depth), residual, f"{points[-1].y:.3g}", f"{min(values):.3g}{DASH}{max(values):.3g}"))
        lines.append(Line(name=f"{residual} residual", points=tuple(points)))
    span = sorted(one.value("without") for one in single)
    return Findings(
        method=f"F = Linear({WIDTH}, {WIDTH}), GELU, Linear({WIDTH}, {WIDTH}), PyTorch's default initialisation, then x "
        "standard normal, one "
        f"token; y = F(x) + x, L = sum of y². First column: seed {FIRST_SEED}. Stacks of such F: 32 tokens, L = sum of y.",
        sentences=(
            f"At seed {FIRST_SEED} the gradient's norm is {single[0].value('total'):.2f} and the identity term's "
            f"{single[0].value('identity'):.2f}; the quotient of two norms is no share, since norms of terms do not add up to the whole's.",
            f"The published pair of {printed['total']} and {printed['identity']} is not that of this seed; "
            f"{_near(single)} of {len(single)} seeds "
            "have both within 1 %.",
            f"Without the residual the gradient's norm lay between {span[0]:.2f} and {span[-1]:.2f} at {len(span)} seeds; the published "
            f"{printed['without']} is {'inside' if span[0] <= float(printed['without']) <= span[-1] else 'outside'} of that.",
        ),
        tables=(
            Table(
                title="One block",
                columns=("figure", "published", f"seed {FIRST_SEED}", "mean over seeds", f"least{DASH}most"),
                rows=tuple(rows),
            ),
            Table(
                title="Gradient at the input of a stack",
                columns=("blocks", "residual", "median norm", f"least{DASH}most"),
                rows=tuple(stack_rows),
            ),
        ),
        panels=(Panel(title="Gradient at the input of a stack", x="blocks", y="norm of the gradient", lines=tuple(lines), log_y=True),),
    )


def _near(single: Sequence[Observation]) -> int:
    """Count the seeds that have both published norms within 1 %."""
    one = claim("residual-gradient-norms")
    return sum(all(abs(seed.value(name) / one.number(name) - 1) < 0.01 for name in ("total", "identity")) for seed in single)


RESIDUAL_GRADIENT = Study(
    name="residual-gradient", summary="share of the identity path in a gradient", plan=_plan, observe=_observe, says=_says
)
