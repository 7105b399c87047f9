"""From the costs of several steps to one profile: what a typical step spends where, and the share of its norms. Pure.

The parts add up to the whole: fractions of each step are averaged, and the step's time is that of steps without the profiler, which took
turns with those that it watched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import log
from statistics import median

import msgspec

from ..cases.case import Case
from ..quantities.stats import Interval, log_interval, mean_interval
from .costs import BETWEEN, Cost, Phase
from .kinds import ModuleKind

__all__ = ["Basis", "Module", "NormShare", "Profile", "Turn", "summarise"]

UNIT = "step"


class Basis(StrEnum):
    """Say which seconds a share is one of: those of the host, all of a step on a CPU, or those that a device's kernels ran."""

    HOST = "host"
    DEVICE = "device"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one step without the profiler and one with it, taken one after the other.

    Seconds: `plain_s` and `profiled_s` until all work was done, `host_s` of the plain step until it returned.
    """

    plain_s: float
    host_s: float
    profiled_s: float
    costs: tuple[Cost, ...]


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what is known of a module beside its time. `norm_cases` has a case for each of a norm's calls in a step, in order."""

    class_name: str
    kind: ModuleKind
    norm_cases: tuple[Case, ...] = ()


class NormShare(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the share of a step that its norms take.

    `total_s` and `norm_s` are seconds of one step, `share` their ratio, `low` and `high` its 95 % interval over steps of this process
    (null with a single step kept), `calls` the calls of norms in a step. `basis` says which seconds: on a GPU those of kernels.
    """

    total_s: float
    norm_s: float
    share: float
    low: float | None
    high: float | None
    calls: int
    basis: Basis


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what a typical step spends where.

    Seconds: `total_s` until all work is done, `host_s` until the step returns; both without the profiler. `device_s` of kernels, null on
    a CPU. `slowdown` is how many times as long a step takes with the profiler, by turns. `steps` were taken, and the quieter `kept` of
    them make up `costs`. `modules` has every module by its path, `unseen` the norms that were found and not seen to run; `norm` is null
    where that is all of them.
    """

    total_s: float
    host_s: float
    device_s: float | None
    slowdown: Interval
    steps: int
    kept: int
    norm: NormShare | None
    costs: tuple[Cost, ...]
    modules: dict[str, Module]
    unseen: tuple[str, ...]

    @property
    def basis_s(self) -> float:
        """Return the seconds that shares are of: those of kernels on a device, else the host's."""
        return self.host_s if self.device_s is None else self.device_s

    @property
    def trains(self) -> bool:
        """Say whether the step had a backward pass."""
        return any(cost.phase is Phase.BACKWARD for cost in self.costs)

    def kind(self, cost: Cost) -> ModuleKind:
        """Return what a cost was for."""
        if cost.is_loss:
            return ModuleKind.LOSS
        return ModuleKind.OTHER if cost.module is None else self.modules[cost.module].kind


def summarise(turns: Sequence[Turn], modules: Mapping[str, Module], basis: Basis) -> Profile:
    """Return the profile of steps that were taken alike. `turns` is not empty.

    Of the profiled steps those are kept that took no longer than the median: what held a slower one up, such as another process, struck
    whichever part was running.
    """
    kept = _quieter(turns)
    host_s = median(turn.host_s for turn in turns)
    costs = _mean_costs([turn.costs for turn in kept], host_s)
    on_device = basis is Basis.DEVICE
    device_s = sum(cost.device_s for cost in costs) if on_device else None
    norms = {path for path, module in modules.items() if module.kind is ModuleKind.NORM}
    called = {cost.module: cost.calls for cost in costs if cost.module in norms and cost.operator == BETWEEN}
    of_s = host_s if device_s is None else device_s
    share = mean_interval([_norm_share(turn.costs, norms, on_device) for turn in kept], UNIT)
    norm = NormShare(
        total_s=of_s,
        norm_s=share.estimate * of_s,
        share=share.estimate,
        low=None if share.low is None else max(0.0, share.low),
        high=None if share.high is None else min(1.0, share.high),
        calls=round(sum(called.values())),
        basis=basis,
    )
    return Profile(
        total_s=median(turn.plain_s for turn in turns),
        host_s=host_s,
        device_s=device_s,
        slowdown=log_interval([log(turn.profiled_s / turn.plain_s) for turn in turns], UNIT),
        steps=len(turns),
        kept=len(kept),
        norm=norm if called or not norms else None,
        costs=costs,
        modules=dict(modules),
        unseen=tuple(path for path in modules if path in norms and path not in called),
    )


def _quieter(turns: Sequence[Turn]) -> list[Turn]:
    middle = median(turn.profiled_s for turn in turns)
    return [turn for turn in turns if turn.profiled_s <= middle]


def _norm_share(costs: Iterable[Cost], norms: set[str], on_device: bool) -> float:
    """Return the part of one step's seconds, on the device or on the host, that its norms took; 0 where nothing took any."""
    seconds = [(cost.module in norms, cost.device_s if on_device else cost.host_s) for cost in costs]
    total_s = sum(time_s for _, time_s in seconds)
    return sum(time_s for is_norm, time_s in seconds if is_norm) / total_s if total_s else 0.0


def _mean_costs(steps: Sequence[Sequence[Cost]], host_s: float) -> tuple[Cost, ...]:
    """Return the mean over steps of each cost: on the host of its fraction of the step, times `host_s`; of all else as it is."""
    fields = ("host_s", "device_s", "calls", "outermost", "kernels")
    sums: defaultdict[tuple[str | None, str, Phase, bool], list[float]] = defaultdict(lambda: [0.0] * len(fields))
    for costs in steps:
        seen_s = sum(cost.host_s for cost in costs)
        for cost in costs:
            found = sums[cost.module, cost.operator, cost.phase, cost.is_loss]
            for position, field in enumerate(fields):
                value = getattr(cost, field)
                found[position] += value * host_s / seen_s if field == "host_s" else value
    return tuple(
        Cost(
            module=module,
            operator=operator,
            phase=phase,
            is_loss=is_loss,
            **{field: value / len(steps) for field, value in zip(fields, found, strict=True)},
        )
        for (module, operator, phase, is_loss), found in sums.items()
    )
