"""What writes to the input of each norm and what reads its output, for the model classes that this is known of.

It is declared by class and paths, not traced: a reader can hold each line beside the class. `conversion.py` checks what follows from
it on forward passes. A model class that is not here, or whose forward is its user's, is converted without folding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from .blocks import Scheme

__all__ = ["Wire", "wires_of"]

POST = "Post-LN: its weight and bias stand on the trunk, and what is added to them next is not centred"
SANDWICH = "Sandwich: what writes to the trunk ends in a norm, whose weight acts after any centring"
LEAVES = "its output leaves the model, and no linear map takes the bias"
NONLINEAR = "its output goes to a nonlinearity, not to a linear map that would take the bias"
PRODUCT = "queries and keys meet in a product, not in a linear map that would take the bias"
SOFTMAX = "softmax takes it away: the bias of a key adds the same to all logits of a query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Say what stands before and after norms whose paths match `norm`.

    `norm` is a path in which * stands for one part. `writers` are paths of modules or parameters whose outputs, added up, are the norm's
    input; * there means any part, so all layers, and {0} the part that the first * of `norm` stood for. `readers` are paths of linear
    maps that take the norm's output; those that a model has not are left out, and of one inside another the outer one.
    `why_uncentred` says why nothing can be done before the norm, `why_unread` why no linear map takes its bias, `why_unseen` why its
    bias may be left out without a difference.
    """

    norm: str
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    why_uncentred: str = ""
    why_unread: str = ""
    why_unseen: str = ""


def _gpt2(body: str, *heads: str) -> tuple[Wire, ...]:
    trunk = tuple(body + path for path in ("wte", "wpe", "h.*.attn.c_proj", "h.*.mlp.c_proj"))
    return (
        Wire(norm=f"{body}h.*.ln_1", writers=trunk, readers=(f"{body}h.{{0}}.attn.c_attn",)),
        Wire(norm=f"{body}h.*.ln_2", writers=trunk, readers=(f"{body}h.{{0}}.mlp.c_fc",)),
        Wire(norm=f"{body}ln_f", writers=trunk, readers=heads, why_unread="" if heads else LEAVES),
    )


def _vit(body: str, *heads: str) -> tuple[Wire, ...]:
    embeddings = tuple(f"embeddings.{part}" for part in ("cls_token", "mask_token", "position_embeddings", "patch_embeddings.projection"))
    trunk = tuple(body + path for path in (*embeddings, "layers.*.attention.o_proj", "layers.*.mlp.fc2"))
    attention = f"{body}layers.{{0}}.attention"
    return (
        Wire(
            norm=f"{body}layers.*.layernorm_before",
            writers=trunk,
            # Where queries and keys are normed, their projections stand one level deeper.
            readers=tuple(f"{attention}.{part}" for part in ("q_proj", "k_proj", "v_proj", "q_proj.projection", "k_proj.projection")),
        ),
        Wire(norm=f"{body}layers.*.layernorm_after", writers=trunk, readers=(f"{body}layers.{{0}}.mlp.fc1",)),
        Wire(norm=f"{body}layernorm", writers=trunk, readers=heads, why_unread="" if heads else LEAVES),
    )


def _toy(model: Any) -> tuple[Wire, ...]:
    scheme = model.stack.blocks[0].scheme
    if scheme is not Scheme.PRE:
        why = SANDWICH if scheme is Scheme.SANDWICH else POST
        return tuple(Wire(norm=f"stack.{part}", why_uncentred=why) for part in ("blocks.*.norm", "blocks.*.exit_norm", "final_norm"))
    trunk = ("embedding", "position", "stack.blocks.*.sublayer.output", "stack.blocks.*.sublayer.2")
    parts = ("query", "key", "value", "0")
    return (
        Wire(norm="stack.blocks.*.norm", writers=trunk, readers=tuple(f"stack.blocks.{{0}}.sublayer.{part}" for part in parts)),
        Wire(norm="stack.final_norm", writers=trunk, readers=("head",)),
    )


_QUERIES_AND_KEYS = (
    Wire(norm="query_norm", writers=("query",), why_unread=PRODUCT),
    Wire(norm="key_norm", writers=("key",), why_unseen=SOFTMAX),
)

_CELL = tuple(
    Wire(norm=f"{source}_{part}_norm", writers=(f"{source}_{part}",), why_unread=NONLINEAR)
    for source in ("input", "state")
    for part in ("gates", "candidate")
)


def _encoder_layer(layer: Any) -> tuple[Wire, ...]:
    why = "nothing is known of what else writes to the trunk of this layer" if layer.norm_first else POST
    return (Wire(norm="norm*", why_uncentred=why),)


_WIRES: Mapping[str, Mapping[str, Callable[[Any], tuple[Wire, ...]]]] = {
    "transformers.models.gpt2.modeling_gpt2": {
        "GPT2LMHeadModel": lambda _: _gpt2("transformer.", "lm_head"),
        "GPT2ForSequenceClassification": lambda _: _gpt2("transformer.", "score"),
        "GPT2ForTokenClassification": lambda _: _gpt2("transformer.", "classifier"),
        "GPT2Model": lambda _: _gpt2(""),
    },
    "transformers.models.vit.modeling_vit": {
        "ViTForImageClassification": lambda _: _vit("vit.", "classifier"),
        "ViTModel": lambda _: _vit(""),
    },
    "transformers.models.bert.modeling_bert": {
        "BertEmbeddings": lambda _: (Wire(norm="LayerNorm", why_uncentred=POST),),
        "BertSelfOutput": lambda _: (Wire(norm="LayerNorm", why_uncentred=POST),),
        "BertOutput": lambda _: (Wire(norm="LayerNorm", why_uncentred=POST),),
        "BertPredictionHeadTransform": lambda _: (
            Wire(norm="LayerNorm", why_uncentred="a nonlinearity writes to its input, and its mean cannot be folded"),
        ),
    },
    "torch.nn.modules.transformer": {"TransformerEncoderLayer": _encoder_layer, "TransformerDecoderLayer": _encoder_layer},
    f"{__package__}.toy": {"ToyLanguageModel": _toy},
    f"{__package__}.attention": {"Attention": lambda _: _QUERIES_AND_KEYS},
    f"{__package__}.vision": {"HeadNorm": lambda _: (Wire(norm="norm", writers=("projection",), why_unread=PRODUCT),)},
    f"{__package__}.recurrent": {"NormedGRUCell": lambda _: _CELL},
    f"{__package__}.convolutional": {
        "ConvPool": lambda _: (Wire(norm="features.*.1.norm", writers=("features.{0}.0",), why_unread=NONLINEAR),)
    },
}
"""What is declared of each class, by the module that the class is of: anybody may call a class Attention."""


def wires_of(model: nn.Module, norms: set[str]) -> dict[str, Wire]:
    """Return the wire of each norm of a model that one is known for, all paths from the model's root and none of them missing.

    `norms` are the paths of the norms. Where parts inside of one another both know a norm, the outer one has its say. Paths of writers
    and readers that a model has not, such as a ViT's mask token, are left out, and of a part that stands in several places the first one
    is given. Where something else stands in the place of a norm, what writes to it has a reader that takes it as it is: the norms that
    read the same stay uncentred.
    """
    known: dict[str, Wire] = {}
    strangers: dict[str, tuple[str, ...]] = {}
    paths = _paths(model)
    for owner, module in model.named_modules(remove_duplicate=False):
        declared = _declared(module)
        if declared is None:
            continue
        prefix = f"{owner}." if owner else ""
        for wire in declared(module):
            pattern = _pattern(prefix + wire.norm)
            for path in paths:
                if path in known or not (match := pattern.fullmatch(path)):
                    continue
                writers = _found(paths, prefix, wire.writers, match)
                if path in norms:
                    known[path] = replace(wire, norm=path, writers=writers, readers=_found(paths, prefix, wire.readers, match))
                else:
                    strangers[path] = writers
    return {norm: _beside(model, wire, strangers) for norm, wire in known.items()}


def _beside(model: nn.Module, wire: Wire, strangers: Mapping[str, tuple[str, ...]]) -> Wire:
    """Return a wire without its writers where one of the strangers, which stand in the places of norms, reads what they write."""
    for path, writers in strangers.items():
        if not set(writers).isdisjoint(wire.writers):
            kind = type(model.get_submodule(path)).__name__
            return replace(
                wire, writers=(), why_uncentred=f"{path}, which reads the same, is no LayerNorm but {kind}, and would miss the mean"
            )
    return wire


def _declared(module: nn.Module) -> Callable[[Any], tuple[Wire, ...]] | None:
    """Return what is declared of a module's class, or of one that it is derived from without a forward of its own."""
    for kind in type(module).__mro__:
        declared = _WIRES.get(kind.__module__, {}).get(kind.__qualname__)
        if declared is not None:
            is_changed = "forward" in vars(module) or type(module).forward is not kind.forward  # type: ignore[attr-defined]
            return None if is_changed else declared
    return None


def _paths(model: nn.Module) -> dict[str, str]:
    """Return the path of every module and parameter, and to each the first one of the module that it is, or is a parameter of."""
    first: dict[nn.Module, str] = {}
    paths: dict[str, str] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths[path] = first.setdefault(module, path)
        for name, _ in module.named_parameters(recurse=False, remove_duplicate=False):
            paths[f"{path}.{name}".removeprefix(".")] = f"{first[module]}.{name}".removeprefix(".")
    return paths


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.escape(path).replace(r"\*", r"([^.]*)"))


def _found(paths: Mapping[str, str], prefix: str, declared: tuple[str, ...], match: re.Match[str]) -> tuple[str, ...]:
    """Return the paths there are of those declared, of one inside another the inner one, each as the first one of its part."""
    found: list[str] = []
    for path in declared:
        pattern = _pattern(prefix + path.format(*match.groups()))
        found += [name for name in paths if pattern.fullmatch(name) and name not in found]
    inner = (path for path in found if not any(other.startswith(f"{path}.") for other in found))
    return tuple(dict.fromkeys(paths[path] for path in inner))
