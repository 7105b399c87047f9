"""How a model is held while its outputs are only looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["inference"]


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Hold a model in evaluation mode, without gradients, for as long as it lasts: nothing is dropped, no running statistic updated."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, is_training in modes.items():
            module.training = is_training
