"""What a sweep is asked: which networks, doing what, by whose norms, under which limit; refused at once where it can never work."""

from __future__ import annotations

import msgspec

from ..cases.conditions import Conditions
from ..cases.throughput_case import ThroughputCase
from ..errors import UsageError
from ..host.threads import validate_threads
from ..measure.plan import Plan
from ..text.words import refuse_providers
from .search import RESOLUTION, Search

__all__ = ["Arm", "Question", "title_of"]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """Name one of those that are swept: a case, at the batch that its search begins with, and the provider of its norms."""

    case: ThroughputCase
    provider: str

    @property
    def name(self) -> str:
        """Return what tells it from the others of its company, e.g. `rms_norm:aten`."""
        return self.case.arm(self.provider)

    @property
    def key(self) -> str:
        """Return what identifies it in a sweep, e.g. `throughput/gpt2-tiny/rms_norm/train/1x64/float32#aten`."""
        return f"{self.case.id}#{self.provider}"

    def at(self, batch: int) -> ThroughputCase:
        """Return its case of another batch."""
        return msgspec.structs.replace(self.case, size=(batch, self.case.size[1]))


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Say what to sweep: every case, at the batch that the search begins with, by every provider.

    `budget_s` is for the calls of one arm at one batch. `limit_bytes` None means the limit that is chosen where none is asked for.
    """

    cases: tuple[ThroughputCase, ...]
    providers: tuple[str, ...]
    device: str
    threads: int
    start: int = 1
    most: int = 65536
    resolution: float = RESOLUTION
    budget_s: float = 2.0
    limit_bytes: int | None = None
    seed: int = 0

    def validate(self) -> None:
        """Raise UsageError for what can never work, before anything is started."""
        self.plan.validate()
        self.search()
        if not self.cases:
            raise UsageError("nothing to sweep was asked for: name at least one network, mode, norm and dtype")
        refuse_providers(self.providers)
        if any(case.size[0] != self.start for case in self.cases):
            raise UsageError(f"a case does not begin with start {self.start}: {', '.join(case.id for case in self.cases)}")
        validate_threads(self.threads)

    def search(self) -> Search:
        """Return a search for the largest batch of one arm, of which nothing is known yet."""
        return Search(start=self.start, most=self.most, resolution=self.resolution)

    @property
    def plan(self) -> Plan:
        """Return how much is measured at one batch: three processes at least, for an interval."""
        return Plan(
            budget_s=self.budget_s, target_half_width=0.03, floor_blocks=3, min_blocks=4, max_blocks=6, max_repetitions=1, seed=self.seed
        )

    @property
    def conditions(self) -> Conditions:
        return Conditions(device=self.device, threads=self.threads)

    @property
    def companies(self) -> dict[str, tuple[Arm, ...]]:
        """Return the arms by what they have in common: all but norm and provider."""
        found: dict[str, list[Arm]] = {}
        for case in self.cases:
            found.setdefault(case.company, []).extend(Arm(case=case, provider=provider) for provider in self.providers)
        return {company: tuple(arms) for company, arms in found.items()}


def title_of(case: ThroughputCase) -> str:
    """Return what a case shares with those that differ in norm and batch, in words, e.g. `gpt2-tiny train, 64 tokens, float32`."""
    return ", ".join([f"{case.label} {case.mode.value}", f"{case.size[1]} tokens", case.dtype.value, *case.options])
