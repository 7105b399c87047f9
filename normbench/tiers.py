"""The cases of all tiers, and which tier an id is of. Pure: imports no torch."""

from __future__ import annotations

from .case import Case, Tier, member
from .errors import UsageError
from .model_case import ModelCase

__all__ = ["AnyCase", "parse_case"]

AnyCase = Case | ModelCase
"""One case of any tier. They have in common what the engine asks for: id, tier, norm, pass_, dtype, numel, is_empty, company and arm."""

_KINDS: dict[Tier, type[Case] | type[ModelCase]] = {Tier.OP: Case, Tier.MODEL: ModelCase}


def parse_case(text: str) -> AnyCase:
    """Return the case of an id, of whichever tier. Raises UsageError naming the part that does not fit."""
    try:
        tier = member(Tier, text.partition("/")[0], "tier")
    except UsageError as error:
        raise UsageError(f"case id {text!r}: {error}") from None
    if tier not in _KINDS:
        raise UsageError(f"case id {text!r}: nothing is measured in the {tier.value} tier by this version")
    return _KINDS[tier].from_id(text)
