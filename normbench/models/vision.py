"""A vision transformer by Hugging Face configuration, with LayerNorm on queries and keys as ViT-22B has it (arXiv:2302.05442)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .recipe import Batch, Recipe, class_loss

__all__ = ["RECIPE", "HeadNorm"]

CLASSES = 1000


class HeadNorm(nn.Module):
    """Project (..., width) to all heads and norm each head's dimension by a LayerNorm without bias; the heads share its weight.

    It stands in the place of a projection to queries or keys.
    """

    def __init__(self, projection: nn.Linear, head_dim: int) -> None:
        super().__init__()
        self.projection = projection
        self.norm = nn.LayerNorm(head_dim, bias=False)
        self.head_dim = head_dim

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed queries or keys (..., heads * head_dim)."""
        projected: Tensor = self.projection(x)
        heads: Tensor = self.norm(projected.view(*projected.shape[:-1], -1, self.head_dim))
        return heads.flatten(-2)


def _options(width: int, heads: int, inner: int, image: tuple[int, int], patch: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_attention_heads": heads, "intermediate_size": inner, "num_hidden_layers": 2}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return {**sizes, **dropout, "image_size": image, "patch_size": patch, "num_labels": CLASSES, "attn_implementation": "sdpa"}


_PRESETS: Mapping[str, Mapping[str, Any]] = {
    # 7 x 9 patches and the class token are the 64 tokens of the other families.
    "tiny": _options(256, 4, 1024, (28, 36), 4),
    # ViT-22B, table 1; its layers run attention and feed-forward side by side, these one after the other.
    "full": _options(6144, 48, 24576, (224, 224), 14),
}


def _make(preset: str) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification
    from transformers.models.vit.modeling_vit import ViTAttention

    model: nn.Module = ViTForImageClassification(ViTConfig(**_PRESETS[preset]))
    attention: Any
    for attention in [module for module in model.modules() if isinstance(module, ViTAttention)]:
        attention.q_proj = HeadNorm(attention.q_proj, attention.head_dim)
        attention.k_proj = HeadNorm(attention.k_proj, attention.head_dim)
    return model


def _inputs(size: tuple[int, ...], preset: str, generator: torch.Generator) -> Batch:
    return {"pixel_values": torch.randn(size, generator=generator)}


def _logits(output: Any) -> Tensor:
    logits: Tensor = output.logits
    return logits


def _loss(logits: Tensor, batch: Batch) -> Tensor:
    return class_loss(logits)


RECIPE = Recipe(
    sizes={"tiny": (2, 3, 28, 36), "full": (32, 3, 224, 224)}, make=_make, inputs=_inputs, output=_logits, loss=_loss, extra="transformers"
)
