"""A small convolutional network for 32 x 32 images, normed over channels: the CIFAR-10 setting of the RMSNorm paper, with departures."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["ChannelNorm", "ConvPool"]

SLOPE = 0.1
"""What a leaky rectifier lets through of negative input."""


class ChannelNorm(nn.Module):
    """Norm the channels at each position of (batch, channels, height, width) by a norm over a last dimension.

    Where the tensor lies channels last in memory, as in `ConvPool`, the norm reads contiguous rows and nothing is copied.
    """

    def __init__(self, channels: int, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.norm = norm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed tensor, of the same shape."""
        y: Tensor = self.norm(x.movedim(1, -1))
        return y.movedim(-1, 1)


class ConvPool(nn.Module):
    """Classify images by nine convolutions, each followed by a norm and a leaky rectifier (slope 0.1), and an average over positions.

    It is ConvPool-CNN-C (arXiv:1412.6806), as arXiv:1602.07868 trains it and arXiv:1910.07467 compares norms on it: three 3 x 3
    convolutions to `width` channels, pooling, three to 2 * width, pooling, one without padding, two of 1 x 1. Departures: a norm takes the
    channels of one position, as in ConvNeXt (arXiv:2201.03545), so that its parameters do not depend on the image's size; a linear layer
    after the average makes the logits; no dropout, no noise, no weight norm.
    `norm` makes a norm of a width. The published width is 96.
    """

    def __init__(self, width: int = 96, classes: int = 10, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()

        def convolution(inputs: int, outputs: int, size: int, padding: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, outputs, size, padding=padding), ChannelNorm(outputs, norm), nn.LeakyReLU(SLOPE))

        self.features = nn.Sequential(
            convolution(3, width, 3, 1),
            convolution(width, width, 3, 1),
            convolution(width, width, 3, 1),
            nn.MaxPool2d(2),
            convolution(width, 2 * width, 3, 1),
            convolution(2 * width, 2 * width, 3, 1),
            convolution(2 * width, 2 * width, 3, 1),
            nn.MaxPool2d(2),
            convolution(2 * width, 2 * width, 3, 0),
            convolution(2 * width, 2 * width, 1, 0),
            convolution(2 * width, 2 * width, 1, 0),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (batch, classes) for images (batch, 3, height, width), such as 32 x 32 and at least 12 x 12."""
        maps: Tensor = self.features(images.contiguous(memory_format=torch.channels_last))
        logits: Tensor = self.head(maps.mean((2, 3)))
        return logits
