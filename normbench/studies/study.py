"""What a study is: a plan of trials, how one trial is observed, and what the observations say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import UsageError
from .findings import Findings
from .observation import Observation, Setting, Trial

__all__ = ["Plan", "Scale", "Study"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Say how much of a study to run: its full plan or a quick one, with other numbers of steps or seeds if given.

    Raises UsageError for a number below 1.
    """

    quick: bool = False
    steps: int | None = None
    seeds: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "seeds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} {value} is none: give at least 1")

    def refuse_idle(self, studies: Sequence[Study]) -> None:
        """Raise UsageError for a number that none of the studies has a use for."""
        names = ", ".join(one.name for one in studies)
        if self.steps is not None and not any(one.has_steps for one in studies):
            raise UsageError(f"steps {self.steps} means nothing here: there is no training in {names}; leave it out")
        if self.seeds is not None and not any(one.has_seeds for one in studies):
            raise UsageError(f"seeds {self.seeds} means nothing here: nothing is random in {names}; leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Hold the trials of a study and what they have in common; observations under other `common` settings are never mixed."""

    trials: tuple[Trial, ...]
    common: Setting = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Name a study, plan it, observe its trials and say what they show.

    `observe` takes a trial and the common settings, depends on nothing else, and so may run in a process of its own. `says` is pure.
    `is_long` says that trials take long enough to be worth processes of their own, `has_steps` that they train for a number of steps that
    can be asked for, `has_seeds` that a number of seeds can.
    """

    name: str
    summary: str
    plan: Callable[[Scale], Plan]
    observe: Callable[[Trial, Setting], Observation]
    says: Callable[[Sequence[Observation]], Findings]
    is_long: bool = False
    has_steps: bool = False
    has_seeds: bool = True
