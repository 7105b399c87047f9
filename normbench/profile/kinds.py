"""What a module is for: attention, feed-forward, norm, embedding, head, loss or other. Pure.

Norms are those that were found by what they compute. All else goes by names, since nothing else tells an attention's projection from
that of a feed-forward: the outermost module whose path or class has one of the words below gives its kind to all that is in it but norms.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum

__all__ = ["ModuleKind", "kinds_of"]


class ModuleKind(StrEnum):
    ATTENTION = "attention"
    FEED_FORWARD = "feed-forward"
    NORM = "norm"
    EMBEDDING = "embedding"
    HEAD = "head"
    LOSS = "loss"
    OTHER = "other"


_WORDS = {
    # Before embedding: T5 keeps the bias of its attention in an embedding.
    ModuleKind.ATTENTION: (r"attn|attention$", r"Attention"),
    ModuleKind.FEED_FORWARD: (
        r"mlp|ffn|feed_?forward|^ff$|^linear[12]$|^intermediate$|experts|dense_?relu",
        r"MLP|FFN?$|FeedForward|MoE|(?<!Self)Output$",
    ),
    ModuleKind.EMBEDDING: (r"embed|rotary|^wte$|^wpe$", r"Embed"),
    ModuleKind.HEAD: (r"^(lm_|prediction_)?heads?$|^(classifier|score|generator|pooler|cls|logits|output_projection)$", r"Head$|Pooler$"),
}
"""For each kind what its modules are called: the last part of the path, and the class."""


def kinds_of(classes: Mapping[str, str], norms: Collection[str]) -> dict[str, ModuleKind]:
    """Return the kind of each module: `classes` has the class of each path, "" being the network, and `norms` the paths of norms."""
    kinds: dict[str, ModuleKind] = {}
    for path in classes:
        if path in norms:
            kinds[path] = ModuleKind.NORM
            continue
        parts = path.split(".")
        outward = [".".join(parts[:length]) for length in range(1, len(parts) + 1)] if path else []
        found = (_own_kind(name, classes.get(name, "")) for name in outward)
        kinds[path] = next((kind for kind in found if kind is not None), ModuleKind.OTHER)
    return kinds


def _own_kind(path: str, class_name: str) -> ModuleKind | None:
    last = path.rpartition(".")[2]
    for kind, (of_path, of_class) in _WORDS.items():
        if re.search(of_path, last, re.IGNORECASE) or re.search(of_class, class_name):
            return kind
    return None
