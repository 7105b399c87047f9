"""Claims that a short computation settles: each function returns its figures by name, from real tensors and modules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..cases.case import Case, DType, Norm, Pass
from ..cases.traffic import flops
from ..errors import UsageError
from ..models.attention import Attention
from ..models.networks import network
from ..models.norms import find_norms
from .verdict import Value

__all__ = ["COMPUTATIONS", "computed"]

Figures = dict[str, float | str]


def _layer_norm_by_hand() -> Figures:
    torch.manual_seed(0)
    x = 3 * torch.randn(4, 32, 256) + 2
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    y = (x - mean) / (variance + 1e-5).sqrt()
    return {"max_abs": float((y - nn.LayerNorm(256)(x)).detach().abs().max()), "mean": float(y.mean()), "std": float(y.std())}


def _mean_square() -> Figures:
    torch.manual_seed(0)
    return {"mean_square": float(F.rms_norm(torch.randn(64, 128, 1024), (1024,), eps=1e-6).square().mean(-1).mean())}


def _range_in_float16() -> Figures:
    torch.manual_seed(0)
    figures: Figures = {}
    for name, mean in (("centred", 0.0), ("offset", 1.5)):
        x = (3 * torch.randn(1024, 512) + mean).half()
        largest = [float(y.abs().max()) for y in (F.layer_norm(x, (512,)), F.rms_norm(x, (512,), eps=1e-6))]
        figures[name] = largest[1] / largest[0]
    return figures


def _attention(scale: float, *, is_normed: bool) -> tuple[float, float]:
    """Return the largest logit and the mean entropy of attention whose queries and keys are `scale` times as large."""
    torch.manual_seed(0)
    part = Attention(256, 4, causal=False, qk_norm=(lambda width: nn.RMSNorm(width, eps=1e-6)) if is_normed else None)
    with torch.no_grad():
        for one in (*part.query.parameters(), *part.key.parameters()):
            one.mul_(scale)
        x = torch.randn(2, 64, 256)
        query, key = (norm(linear(x).unflatten(-1, (4, -1)).transpose(1, 2)) for norm, linear in _queries_and_keys(part))
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        chances = logits.softmax(-1)
        return float(logits.abs().max()), float(-(chances * chances.clamp_min(1e-30).log()).sum(-1).mean())


def _queries_and_keys(part: Attention) -> tuple[tuple[nn.Module, nn.Module], tuple[nn.Module, nn.Module]]:
    return (part.query_norm, part.query), (part.key_norm, part.key)


def _qk_norm() -> Figures:
    # Plain attention at scale 1 has projections of default size; a factor of 30 on both makes its logits 900 times as large.
    largest = [_attention(scale, is_normed=True)[0] for scale in (1.0, 3.0, 10.0, 30.0)]
    entropy = {normed: [_attention(scale, is_normed=normed)[1] for scale in (1.0, 30.0)] for normed in (False, True)}
    return {
        "largest_logit_spread": max(largest) - min(largest),
        "largest_over_root": max(largest) / 64**0.5,
        "plain_entropy": entropy[False][1] / entropy[False][0],
        "qk_norm_entropy": entropy[True][1] / entropy[True][0],
    }


def _qk_norm_parameters() -> Figures:
    width, heads = 256, 4
    extra = [sum(one.numel() for one in Attention(width, heads, qk_norm=norm).parameters()) for norm in (nn.RMSNorm, None)]
    return {"over_width": (extra[0] - extra[1]) / width, "over_head_width": (extra[0] - extra[1]) / (width // heads)}


def _family_norms() -> Figures:
    names = ("transformer", "bert", "gpt2", "gpt3", "t5", "llama", "qwen3")
    figures: Figures = {}
    for name in names:
        try:
            found = network(name)
            kinds = {one.norm for one in find_norms(found.build("tiny"))}
        except UsageError as error:
            figures[name] = str(error)
            continue
        figures[name] = f"{found.position.value} {' and '.join(sorted(kind.value for kind in kinds))}"
    return figures


def _final_norm_names() -> Figures:
    """Return the name of the last norm that a forward pass runs."""
    figures: Figures = {}
    for name in ("llama", "gpt2", "t5"):
        found = network(name)
        model = found.build("tiny")
        order: list[str] = []
        for one in find_norms(model):
            one.module.register_forward_hook(_noting(order, one.name))
        with torch.no_grad():
            found.outputs(model, found.batch("tiny"))
        figures[name] = order[-1].rpartition(".")[2]
    return figures


def _noting(order: list[str], name: str) -> Callable[..., None]:
    """Return a hook that writes a module's name down as it runs."""

    def hook(module: nn.Module, arguments: object, output: object) -> None:
        order.append(name)

    return hook


def _strict_load() -> Figures:
    try:
        nn.RMSNorm(8).load_state_dict(nn.LayerNorm(8).state_dict())
    except RuntimeError as error:
        text = str(error)
        return {"error_names_bias": float('"bias"' in text), "error_names_shape": float("size mismatch" in text)}
    return {"error_names_bias": 0.0, "error_names_shape": 0.0}


def _implied_share(*, op_saved: float, model_saved: list[float]) -> Figures:
    """Return the share of norms that makes an op's saving and a model's one fact: the model saves share * op saving."""
    return {"least_share": model_saved[0] / op_saved, "most_share": model_saved[1] / op_saved}


def _operations_saved() -> Figures:
    figures: Figures = {}
    for pass_ in (Pass.FORWARD, Pass.FORWARD_BACKWARD):
        layer, rms = (flops(Case.make(norm, pass_, (64, 1024), DType.FLOAT32)) for norm in Norm)
        figures[f"{pass_.value}_percent"] = 100 * (1 - rms / layer)
    return figures


def _eps_inside_and_outside() -> Figures:
    torch.manual_seed(0)
    figures: Figures = {}
    for name, size in (("at_1", 1.0), ("at_1e_2", 1e-2), ("at_1e_3", 1e-3), ("at_1e_4", 1e-4)):
        x = size * torch.randn(64, 512)
        inside = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        outside = x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-6)
        figures[name] = float(((outside - inside).abs().max(-1).values / inside.abs().max(-1).values).max())
    return figures


def _framework_support() -> Figures:
    from ..catalogue import REQUIREMENTS

    figures: Figures = {"pytorch": "built in" if hasattr(nn, "RMSNorm") else "not there"}
    if missing := REQUIREMENTS["transformers"].missing():
        return figures | {"hugging_face_gpt2": f"unknown: {missing}"}
    from transformers import GPT2Config

    fields = [field for field in _fields(GPT2Config()) if "norm" in field and "epsilon" not in field and "eps" not in field]
    return figures | {"hugging_face_gpt2": "selectable" if fields else "not selectable"}


def _fields(config: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(config)] if dataclasses.is_dataclass(config) else list(config.to_dict())


COMPUTATIONS: dict[str, Callable[..., Figures]] = {
    "layer_norm_by_hand": _layer_norm_by_hand,
    "mean_square": _mean_square,
    "range_in_float16": _range_in_float16,
    "qk_norm": _qk_norm,
    "qk_norm_parameters": _qk_norm_parameters,
    "family_norms": _family_norms,
    "final_norm_names": _final_norm_names,
    "strict_load": _strict_load,
    "implied_share": _implied_share,
    "operations_saved": _operations_saved,
    "eps_inside_and_outside": _eps_inside_and_outside,
    "framework_support": _framework_support,
}


def computed(name: str, **options: Any) -> dict[str, Value]:
    """Return the figures of a computation by name; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        return {figure: Value(estimate=value) for figure, value in COMPUTATIONS[name](**options).items()}
