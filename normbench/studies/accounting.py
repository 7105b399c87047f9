"""`accounting`: parameters and reductions of norms, counted on modules and on the operators that the formulas run through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..models.networks import PRESETS, network, networks
from ..models.norms import find_norms
from ..providers import eager
from .findings import Findings, Line, Panel, Point, Table
from .observation import Observation, Setting, Trial
from .over_seeds import by, chosen
from .study import Plan, Scale, Study

__all__ = ["ACCOUNTING", "count_reductions"]

WIDTHS, STACK_WIDTH, STACK_LAYERS, NORMS_PER_LAYER = (256, 1024, 4096), 4096, 32, 2
_REDUCTIONS = {"mean", "sum", "var", "var_mean", "amax", "norm", "linalg_vector_norm"}


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count the operators that reduce a tensor over a dimension."""

    reductions: int

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reductions = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.reductions += func._schema.name.removeprefix("aten::") in _REDUCTIONS
        return func(*args, **(kwargs or {}))


def count_reductions(function: Callable[[Tensor], object], width: int) -> int:
    """Return how many reductions over a row a function of (1, width) runs."""
    x = torch.randn(1, width)
    counter = _Counter()
    with counter:
        function(x)
    return counter.reductions


def _plan(scale: Scale) -> Plan:
    settings: list[Setting] = [{"what": "norm", "width": width} for width in WIDTHS]
    settings += [{"what": "stack", "width": STACK_WIDTH, "layers": STACK_LAYERS}]
    settings += [{"what": "network", "network": one.name, "preset": preset} for one in networks() for preset in PRESETS]
    return Plan(trials=tuple(Trial(setting=one, seed=0) for one in settings))


def _observe(trial: Trial, common: Setting) -> Observation:
    match trial.setting["what"]:
        case "norm":
            values = _norm(int(trial.setting["width"]))
        case "stack":
            values = _stack(int(trial.setting["width"]), int(trial.setting["layers"]))
        case _:
            values = _network(str(trial.setting["network"]), str(trial.setting["preset"]))
    return Observation.of(ACCOUNTING.name, trial, values=values)


def _parameters(module: nn.Module) -> int:
    return sum(one.numel() for one in module.parameters())


def _norm(width: int) -> dict[str, float]:
    return {
        "layer_norm": _parameters(nn.LayerNorm(width)),
        "rms_norm": _parameters(nn.RMSNorm(width)),
        "batch_norm": _parameters(nn.BatchNorm1d(width)),
        "layer_norm_reductions": count_reductions(lambda x: eager.layer_norm(x, None, None, None, 1e-5), width),
        "rms_norm_reductions": count_reductions(lambda x: eager.rms_norm(x, None, None, None, 1e-6), width),
    }


def _stack(width: int, layers: int) -> dict[str, float]:
    one = _norm(width)
    values = {}
    for norm in ("layer_norm", "rms_norm"):
        blocks = NORMS_PER_LAYER * layers
        values[f"{norm}_in_blocks"] = blocks * one[norm]
        values[f"{norm}_with_final"] = (blocks + 1) * one[norm]
        values[f"{norm}_reductions_per_layer"] = NORMS_PER_LAYER * one[f"{norm}_reductions"]
        values[f"{norm}_reductions_with_final"] = (blocks + 1) * one[f"{norm}_reductions"]
    return values


def _network(name: str, preset: str) -> dict[str, float]:
    """Return a preset's counts as built, and with all its norms LayerNorms with bias or all RMSNorms.

    Norms are found by what they compute, in the tiny preset; the other is made without memory and counted by their names.
    """
    tiny = network(name).build(PRESETS[0])
    found = find_norms(tiny)
    model = tiny if preset == PRESETS[0] else network(name).build(preset, device="meta")
    norms = {one.name: model.get_submodule(one.name) for one in found}
    widths = [norms[one.name].get_parameter(one.weight_name).numel() for one in found if one.weight_name is not None]
    total, held = _parameters(model), sum(_parameters(norm) for norm in norms.values())
    as_layer, as_rms = 2 * sum(widths), sum(widths)
    return {
        "parameters": total,
        "norms": len(found),
        "norm_parameters": held,
        "as_layer_norm": as_layer,
        "as_rms_norm": as_rms,
        "norm_share_percent": 100 * held / total,
        "parameters_saved_percent": 100 * (as_layer - as_rms) / (total - held + as_layer),
    }


def _says(observations: Sequence[Observation]) -> Findings:
    (stack,) = chosen(observations, what="stack")
    norms = [
        (
            str(width),
            *(
                f"{one[0].value(name):.0f}"
                for name in ("layer_norm", "batch_norm", "rms_norm", "layer_norm_reductions", "rms_norm_reductions")
            ),
        )
        for width, one in by(chosen(observations, what="norm"), "width").items()
    ]
    found = chosen(observations, what="network")
    models = [
        (
            f"{one.setting['network']}-{one.setting['preset']}",
            f"{one.value('parameters'):.0f}",
            f"{one.value('norms'):.0f}",
            f"{one.value('norm_parameters'):.0f}",
            f"{one.value('norm_share_percent'):.3f} %",
            f"{one.value('parameters_saved_percent'):.3f} %",
        )
        for one in found
    ]
    return Findings(
        method="Parameters are counted on modules, reductions on the operators that this package's eager formulas run "
        "through, one row, forward. "
        f"The stack has {NORMS_PER_LAYER} norms a layer. Networks: the presets of `normbench models list`, their norms "
        "found by what they compute.",
        sentences=(
            f"{STACK_LAYERS} layers of width {STACK_WIDTH}: {stack.value('layer_norm_in_blocks'):.0f} parameters with LayerNorm and "
            f"{stack.value('rms_norm_in_blocks'):.0f} with RMSNorm; with the final norm {stack.value('layer_norm_with_final'):.0f} and "
            f"{stack.value('rms_norm_with_final'):.0f}.",
            f"Reductions per token: {stack.value('layer_norm_reductions_per_layer'):.0f} and "
            f"{stack.value('rms_norm_reductions_per_layer'):.0f} a "
            f"layer, {stack.value('layer_norm_reductions_with_final'):.0f} and "
            f"{stack.value('rms_norm_reductions_with_final'):.0f} in the model.",
        ),
        tables=(
            Table(
                title="One norm",
                columns=("width", "LayerNorm", "BatchNorm", "RMSNorm", "reductions, LayerNorm", "reductions, RMSNorm"),
                rows=tuple(norms),
            ),
            Table(
                title="Networks",
                columns=("network", "parameters", "norms", "of norms", "share", "saved by RMSNorm for LayerNorm"),
                rows=tuple(models),
            ),
        ),
        panels=(
            Panel(
                title="Share of the parameters that norms hold, tiny and full presets",
                x="parameters of the network",
                y="share of norms (%)",
                log_x=True,
                log_y=True,
                lines=tuple(
                    Line(
                        name=str(name),
                        points=tuple(Point(one.value("parameters"), one.value("norm_share_percent")) for one in same),
                    )
                    for name, same in by(found, "network").items()
                ),
            ),
        ),
    )


ACCOUNTING = Study(
    name="accounting", summary="parameters and reductions of norms, exact", plan=_plan, observe=_observe, says=_says, has_seeds=False
)
