"""Which formula a provider computes, where it is not quite the norm of that name. Pure."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Definition"]


class Definition(StrEnum):
    """Say which formula is computed; outputs are checked against that one, and reports name it where it is not `formula`.

    formula: the norm as `reference.py` has it, of the sum x + residual as it is returned. unrounded_sum: the norm of the sum before it
    is rounded to its dtype, as kernels compute it that add in float32 and round only what they return. eps_outside_root:
    h / (sqrt(mean(h^2)) + eps), as some guides write RMSNorm: the formula where mean(h^2) is far above eps, and another one where not.
    """

    FORMULA = "formula"
    UNROUNDED_SUM = "unrounded_sum"
    EPS_OUTSIDE_ROOT = "eps_outside_root"

    @property
    def text(self) -> str:
        """Return what is computed, in words for people."""
        return {
            "formula": "the norm's own formula",
            "unrounded_sum": "the norm of x + residual before it is rounded",
            "eps_outside_root": "x / (sqrt(mean(x^2)) + eps) * weight",
        }[self.value]

    @property
    def is_another_function(self) -> bool:
        """Say whether it differs from the norm by more than where it rounds; such a row is compared with no other."""
        return self is Definition.EPS_OUTSIDE_ROOT
