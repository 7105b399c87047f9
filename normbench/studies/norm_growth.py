"""`norm-growth`: the size of the residual trunk through a stack at initialisation, by where the norms stand."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch

from ..models.blocks import FeedForward, Scheme, Stack
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen, spread
from .study import Plan, Scale, Study

__all__ = ["NORM_GROWTH"]

WIDTH, BLOCKS, FIRST_SEED = 128, 12, 11
_EXIT_WIDTH, _EXIT_SEED = 64, 0


def _plan(scale: Scale) -> Plan:
    seeds = range(FIRST_SEED, FIRST_SEED + (scale.seeds or 5))
    stacks = [Trial(setting={"what": "stack", "scheme": scheme.value}, seed=seed) for scheme in Scheme for seed in seeds]
    return Plan(trials=(*stacks, Trial(setting={"what": "exit of one block"}, seed=_EXIT_SEED)))


def _observe(trial: Trial, common: Setting) -> Observation:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(trial.seed)
        if trial.setting["what"] != "stack":
            return Observation.of(NORM_GROWTH.name, trial, values=_exits())
        stack = Stack([FeedForward(WIDTH) for _ in range(BLOCKS)], WIDTH, scheme=str(trial.setting["scheme"]))
        *_, last = (trunk := list(stack.trunk(torch.randn(2, 16, WIDTH))))
        sizes = [_size(x) for x in trunk]
        values = {f"block_{block}": size for block, size in enumerate(sizes)}
        values |= {
            "growth": sizes[-1] / sizes[0],
            "per_block": (sizes[-1] / sizes[0]) ** (1 / BLOCKS) - 1,
            "after_final_norm": _size(torch.nn.functional.layer_norm(last, (WIDTH,))),
        }
    return Observation.of(NORM_GROWTH.name, trial, values=values, curves={"trunk": list(enumerate(sizes))})


def _exits() -> dict[str, float]:
    """Return the size of tokens before a block, after a Post-LN one, and after a Pre-LN one of its own weights, the same input."""
    x = torch.randn(2, 8, _EXIT_WIDTH)
    post, pre = (Stack([FeedForward(_EXIT_WIDTH, 128)], _EXIT_WIDTH, scheme=one, final_norm=False) for one in (Scheme.POST, Scheme.PRE))
    return {"input": _size(x), "post": _size(post(x)), "pre": _size(pre(x))}


def _size(x: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(x, dim=-1).mean())


def _says(observations: Sequence[Observation]) -> Findings:
    groups = {str(scheme): members for scheme, members in by(chosen(observations, what="stack"), "scheme").items()}
    rows = [
        (
            scheme,
            *(f"{members[0].value(f'block_{block}'):.2f}" for block in (0, 1, 2, 4, 8, 12)),
            spread(members, "growth").text(3),
            f"{100 * members[0].value('per_block'):.2f} %",
            f"{members[0].value('after_final_norm'):.2f}",
        )
        for scheme, members in groups.items()
    ]
    (exits,) = (one for one in observations if not one.matches(what="stack"))
    pre = groups[Scheme.PRE.value][0]
    columns = ("scheme", "block 0", "1", "2", "4", "8", "12", "growth (over seeds)", "per block", "after a final norm")
    return Findings(
        method=f"{BLOCKS} feed-forward blocks of width {WIDTH} (hidden {4 * WIDTH}, GELU) at PyTorch's default "
        "initialisation (DeepNorm: its "
        f"own), then x standard normal of shape (2, 16, {WIDTH}); float32. Sizes are mean L2 norms of tokens, seed {FIRST_SEED}.",
        sentences=(
            f"Pre-LN's trunk grows {pre.value('growth'):.2f} times over {BLOCKS} blocks, "
            f"{100 * pre.value('per_block'):.2f} % a block, and a "
            f"final norm brings it to {pre.value('after_final_norm'):.2f} = sqrt({WIDTH}).",
            f"After one block a token of {exits.value('input'):.3f} has {exits.value('post'):.4f} with Post-LN and "
            f"{exits.value('pre'):.4f} with Pre-LN (width {_EXIT_WIDTH}, seed {_EXIT_SEED}); sqrt({_EXIT_WIDTH}) is {sqrt(_EXIT_WIDTH):g}.",
        ),
        tables=(Table(title="Size of the trunk", columns=columns, rows=tuple(rows)),),
        panels=(
            Panel(
                title="Size of the trunk at initialisation",
                x="blocks passed",
                y="mean token norm",
                lines=tuple(
                    Line(name=scheme, points=tuple(Point(x, y) for x, y in members[0].curve("trunk"))) for scheme, members in groups.items()
                ),
            ),
        ),
    )


NORM_GROWTH = Study(name="norm-growth", summary="size of the residual trunk by where norms stand", plan=_plan, observe=_observe, says=_says)
