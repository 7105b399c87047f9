"""The provider `guide`: RMSNorm as some guides write it, its eps added outside the root. It is another function, and is labelled so."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import Case, Convention
from ..cases.definition import Definition
from ..registry import provider

__all__ = ["guide", "guide_unsupported"]


def guide_unsupported(case: Case, device: str) -> str | None:
    """Return why the variant is not defined for the case, or None."""
    if case.convention is not Convention.TORCH:
        return f"the variant with eps outside the root is written for the torch convention only, not {case.convention.value}"
    if case.bias:
        return "the variant with eps outside the root has no bias"
    return None


@provider("guide", norms=["rms_norm"], supports=guide_unsupported, definition=Definition.EPS_OUTSIDE_ROOT)
def guide(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None, eps: float) -> Tensor | tuple[Tensor, Tensor]:
    """Compute x / (sqrt(mean(x^2)) + eps) * weight, statistics in float32 (float64 for float64) and rounded once.

    The gradient of a row of zeros is not a number: the root has none at 0. RMSNorm (arXiv:1910.07467) keeps eps inside for that.
    """
    hidden = x if residual is None else x + residual
    wide = hidden.to(torch.promote_types(x.dtype, torch.float32))
    y = wide / (wide.pow(2).mean(-1, keepdim=True).sqrt() + eps)
    if weight is not None:
        y = y * weight
    y = y.to(x.dtype)
    return y if residual is None else (y, hidden)
