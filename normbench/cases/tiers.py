"""The cases of all tiers, and which tier an id is of. Pure: imports no torch."""

from __future__ import annotations

from ..errors import UsageError
from ..text.words import member
from .case import Case, Tier
from .model_case import ModelCase
from .throughput_case import ThroughputCase

__all__ = ["AnyCase", "parse_case"]

AnyCase = Case | ModelCase | ThroughputCase
"""One case of any tier. They have in common what the engine asks for: id, tier, norm, pass_, dtype, metric,
numel, is_empty, company and arm."""

_KINDS: dict[Tier, type[Case] | type[ModelCase] | type[ThroughputCase]] = {
    Tier.OP: Case,
    Tier.MODEL: ModelCase,
    Tier.THROUGHPUT: ThroughputCase,
}


def parse_case(text: str) -> AnyCase:
    """Return the case of an id, of whichever tier. Raises UsageError naming the part that does not fit."""
    try:
        tier = member(Tier, text.partition("/")[0], "tier")
    except UsageError as error:
        raise UsageError(f"case id {text!r}: {error}") from None
    return _KINDS[tier].from_id(text)
