"""Where the time of a network's step goes: by module, by operator, and what share of it its norms take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import NormbenchError

if TYPE_CHECKING:
    from torch import nn

    from .summary import NormShare

__all__ = ["norm_share"]


def norm_share(model: nn.Module, step: Callable[[], Any], *, repeats: int = 20) -> NormShare:
    """Return the share of a step that the model's norms take, forward and backward.

    `step` is a function of no arguments that runs the model forward and, in training, the loss and its backward. It runs `repeats` times
    with PyTorch's profiler and as often without, in turns; the model's gradients are dropped before each. On a GPU the seconds are those of
    kernels, elsewhere wall time. A norm is whatever `normbench.models.norms.find_norms` finds; without any the share is 0. Raises
    UsageError for fewer than one repeat and NormbenchError where no call of a norm could be seen.
    """
    from .capture import profile_step

    profile = profile_step(model, step, steps=repeats)
    if profile.norm is None:
        raise NormbenchError(
            f"none of the {len(profile.unseen)} norms of {type(model).__name__}, such as {profile.unseen[0]}, was seen to run: a compiled "
            "network hides its modules, so give it uncompiled, and a step that runs it"
        )
    return profile.norm
