"""What a record is judged by: its name, its unit, and which way it is good. Pure."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["TIME", "Better", "Metric", "tokens_metric"]


class Better(StrEnum):
    """Say which way a metric is good: `less` for a time, `more` for a throughput."""

    LESS = "less"
    MORE = "more"

    @property
    def cost_sign(self) -> int:
        """Return what the log of head / base is multiplied with so that positive means worse."""
        return 1 if self is Better.LESS else -1


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """Name what one call is judged by. Samples are seconds whatever the metric is: a rate is `per_call` over them."""

    name: str
    unit: str
    better: Better
    per_call: int = 1

    def value(self, time_s: float) -> float:
        """Return the metric of a call that takes `time_s` seconds, above 0."""
        return self.per_call / time_s if self.better is Better.MORE else time_s


TIME = Metric(name="time", unit="s", better=Better.LESS)
"""The time of a call: the metric of the op and model tiers."""


def tokens_metric(tokens: int) -> Metric:
    """Return the metric of a call that trains on, reads or writes so many tokens: the throughput tier's."""
    return Metric(name="tokens_per_s", unit="tokens/s", better=Better.MORE, per_call=tokens)
