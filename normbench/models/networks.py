"""The networks that the model tier measures: each by name, in presets, with random weights from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn

from ..cases.case import Norm
from ..catalogue import REQUIREMENTS
from ..errors import UsageError
from . import language, plain, vision
from .recipe import Batch, Recipe

__all__ = ["PRESETS", "Network", "Position", "network", "networks"]

PRESETS = ("tiny", "full")
"""tiny: a training step well under 0.1 s on two cores. full: the widths of a published model and two layers, for one large GPU."""

SPREAD = 0.1
"""Standard deviation of what is added to vectors of parameters."""

_ROTARY = "inv_freq"


class Position(StrEnum):
    """Say where a network has its norms.

    pre: at the entry of each branch off the residual trunk. post: on the trunk, after each sum. inner: between layers or inside a
    recurrent cell, without a trunk.
    """

    PRE = "pre"
    POST = "post"
    INNER = "inner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Name a network, its norm and its norm's position, and make it in a preset: module, inputs, output and loss."""

    name: str
    summary: str
    norm: Norm
    position: Position
    recipe: Recipe

    def build(self, preset: str, *, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu", seed: int = 0) -> nn.Module:
        """Return the module of a preset in training mode, without dropout and without a cache.

        A seed gives the same weights on every device of one type, and in every dtype the same values, rounded. Vectors of parameters,
        those of norms among them, are spread around what they start at: a norm without its weight or bias is seen to be wrong.
        torch's own generator is left as it was. Raises UsageError for an unknown preset or a package that is not installed.
        """
        self.size(preset)
        if self.recipe.extra and (missing := REQUIREMENTS[self.recipe.extra].missing()):
            raise UsageError(f"network {self.name!r} {missing}")
        device = torch.device(device)
        # torch.manual_seed seeds the generators of all GPUs.
        gpus = range(torch.cuda.device_count()) if device.type == "cuda" or torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
        with torch.random.fork_rng(devices=gpus), torch.device(device):
            torch.manual_seed(seed)
            module = self.recipe.make(preset)
            with torch.no_grad():
                for parameter in module.parameters():
                    if parameter.ndim == 1:
                        parameter.add_(torch.randn_like(parameter), alpha=SPREAD)
        # The angles of rotary positions are float32 whatever the model is: in 16 bits far positions would fall together.
        angles = {name: buffer.clone() for name, buffer in module.named_buffers() if name.endswith(_ROTARY)}
        module.to(device=device, dtype=dtype)
        for name, buffer in angles.items():
            owner, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(owner), attribute, buffer)
        return module.train()

    def batch(
        self,
        preset: str,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        size: tuple[int, ...] | None = None,
    ) -> dict[str, Tensor]:
        """Return the keyword arguments of the module: tokens, int64, or pixels in `dtype`; the same for a seed on every device.

        `size` is that of the main input, the preset's own when not given.
        """
        generator = torch.Generator().manual_seed(seed)
        inputs = self.recipe.inputs(self.size(preset) if size is None else size, preset, generator)
        return {name: value.to(device, dtype if value.is_floating_point() else None) for name, value in inputs.items()}

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the differentiable output that is compared: logits (batch, tokens, vocabulary) or (batch, classes)."""
        return self.recipe.output(model(**batch))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the training loss, a scalar: a cross-entropy of `outputs`, in float32 or wider."""
        return self.recipe.loss(self.outputs(model, batch), batch)

    def size(self, preset: str) -> tuple[int, ...]:
        """Return the shape of the main input: (batch, tokens) or (batch, channels, height, width).

        Raises UsageError for an unknown preset.
        """
        if preset not in self.recipe.sizes:
            raise UsageError(f"network {self.name!r} has no preset {preset!r}; known are {', '.join(self.recipe.sizes)}")
        return self.recipe.sizes[preset]


_NETWORKS = (
    Network(
        name="gpt2",
        summary="GPT-2: decoder, final norm, head tied to the embedding",
        norm=Norm.LAYER_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["gpt2"],
    ),
    Network(
        name="gpt3",
        summary="GPT-3: GPT-2's layers at the widths of 175B",
        norm=Norm.LAYER_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["gpt3"],
    ),
    Network(
        name="bert",
        summary="BERT: encoder, a norm after the embeddings and one in the head",
        norm=Norm.LAYER_NORM,
        position=Position.POST,
        recipe=language.RECIPES["bert"],
    ),
    Network(
        name="t5",
        summary="T5: encoder and decoder, RMSNorm under the name of LayerNorm, two final norms",
        norm=Norm.RMS_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["t5"],
    ),
    Network(
        name="llama",
        summary="LLaMA: decoder, rotary positions, gated feed-forward, final norm",
        norm=Norm.RMS_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["llama"],
    ),
    Network(
        name="qwen2",
        summary="Qwen2: LLaMA's layers with fewer heads for keys and values and biases on all three projections",
        norm=Norm.RMS_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["qwen2"],
    ),
    Network(
        name="qwen3",
        summary="Qwen3: as Qwen2 without biases, and RMSNorm on queries and keys",
        norm=Norm.RMS_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["qwen3"],
    ),
    Network(
        name="deepseek_v2",
        summary="DeepSeek-V2: latent attention with RMSNorm on both latents; its dense layers",
        norm=Norm.RMS_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["deepseek_v2"],
    ),
    Network(
        name="deepseek_v3",
        summary="DeepSeek-V3: the same, wider; its dense layers",
        norm=Norm.RMS_NORM,
        position=Position.PRE,
        recipe=language.RECIPES["deepseek_v3"],
    ),
    Network(
        name="vit",
        summary="Vision transformer with LayerNorm on queries and keys, as in ViT-22B, final norm",
        norm=Norm.LAYER_NORM,
        position=Position.PRE,
        recipe=vision.RECIPE,
    ),
    Network(
        name="transformer",
        summary="The original Transformer: encoder and decoder of torch.nn",
        norm=Norm.LAYER_NORM,
        position=Position.POST,
        recipe=plain.RECIPES["transformer"],
    ),
    Network(
        name="gru",
        summary="RNNSearch: recurrent translator with attention, four norms in each cell",
        norm=Norm.LAYER_NORM,
        position=Position.INNER,
        recipe=plain.RECIPES["gru"],
    ),
    Network(
        name="cnn",
        summary="ConvPool-CNN-C for CIFAR-10, a norm over channels after each convolution",
        norm=Norm.LAYER_NORM,
        position=Position.INNER,
        recipe=plain.RECIPES["cnn"],
    ),
)


def networks() -> tuple[Network, ...]:
    """Return all networks, in the order they are listed in."""
    return _NETWORKS


def network(name: str) -> Network:
    """Return the network of a name. Raises UsageError that lists the known ones."""
    for one in _NETWORKS:
        if one.name == name:
            return one
    raise UsageError(f"network {name!r} is unknown; known are {', '.join(one.name for one in _NETWORKS)}")
