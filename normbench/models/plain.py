"""Networks made of torch.nn alone: the original Transformer, a recurrent translator and a small convolutional network."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .convolutional import ConvPool
from .recipe import Batch, Recipe, class_loss, next_token_loss
from .recurrent import GRUTranslator
from .transformer import Transformer

__all__ = ["RECIPES"]

VOCABULARIES: Mapping[str, Mapping[str, int]] = {
    # Section 5.1 of arXiv:1706.03762, and the vocabulary of arXiv:1409.0473.
    "transformer": {"tiny": 1024, "full": 37000},
    "gru": {"tiny": 1024, "full": 30000},
}


def _transformer(preset: str) -> nn.Module:
    vocabulary = VOCABULARIES["transformer"][preset]
    if preset == "tiny":
        return Transformer(width=256, layers=2, heads=4, hidden=1024, vocabulary=vocabulary)
    # The big model of table 3.
    return Transformer(width=1024, layers=2, heads=16, hidden=4096, vocabulary=vocabulary)


def _gru(preset: str) -> nn.Module:
    vocabulary = VOCABULARIES["gru"][preset]
    return GRUTranslator(width=256, embedding=128, vocabulary=vocabulary) if preset == "tiny" else GRUTranslator(vocabulary=vocabulary)


def _cnn(preset: str) -> nn.Module:
    return ConvPool(width=32) if preset == "tiny" else ConvPool()


def _inputs_of(name: str, size: tuple[int, ...], preset: str, generator: torch.Generator) -> Batch:
    vocabulary = VOCABULARIES[name][preset]
    return {part: torch.randint(vocabulary, size, generator=generator) for part in ("source", "target")}


def _transformer_inputs(size: tuple[int, ...], preset: str, generator: torch.Generator) -> Batch:
    return _inputs_of("transformer", size, preset, generator)


def _gru_inputs(size: tuple[int, ...], preset: str, generator: torch.Generator) -> Batch:
    return _inputs_of("gru", size, preset, generator)


def _images(size: tuple[int, ...], preset: str, generator: torch.Generator) -> Batch:
    return {"images": torch.randn(size, generator=generator)}


def _itself(output: Tensor) -> Tensor:
    return output


def _translation_loss(logits: Tensor, batch: Batch) -> Tensor:
    return next_token_loss(logits, batch["target"])


def _class_loss(logits: Tensor, batch: Batch) -> Tensor:
    return class_loss(logits)


RECIPES: dict[str, Recipe] = {
    "transformer": Recipe(
        sizes={"tiny": (2, 64), "full": (8, 512)}, make=_transformer, inputs=_transformer_inputs, output=_itself, loss=_translation_loss
    ),
    # 80 sentences of at most 50 words: section 4.2 of arXiv:1409.0473.
    "gru": Recipe(sizes={"tiny": (8, 16), "full": (80, 50)}, make=_gru, inputs=_gru_inputs, output=_itself, loss=_translation_loss),
    "cnn": Recipe(sizes={"tiny": (2, 3, 32, 32), "full": (128, 3, 32, 32)}, make=_cnn, inputs=_images, output=_itself, loss=_class_loss),
}
