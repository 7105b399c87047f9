"""The arms of the throughput tier that took turns with each other, and what they say of one another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..cases.case import DType, Norm
from ..cases.conditions import Conditions
from ..cases.shape import shape_text
from ..cases.throughput_case import Mode, ThroughputCase
from ..catalogue import BUILT_IN
from ..quantities.stats import Interval
from ..records.record import NO_NORM, Role
from ..results.derived import Result
from ..results.rates import metric_ratio
from .tables import describe_conditions, fastest, on_machine

__all__ = ["Company", "Setting", "by_company", "by_setting"]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Name what all figures of a section share; networks and sizes differ within some of its tables and figures."""

    machine: str
    preset: str
    mode: Mode
    dtype: DType
    options: tuple[str, ...]
    conditions: Conditions

    @property
    def title(self) -> str:
        """Return e.g. `train, float32 (accumulate-4)`."""
        return f"{self.mode.value}, {self.dtype.value}" + (f" ({', '.join(self.options)})" if self.options else "")

    @property
    def circumstances(self) -> str:
        return f"throughput tier; {describe_conditions(self.conditions)}{on_machine(self.machine)}"


class Company(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the results of one network in one mode and size: by norm and provider, and those of the network without norms."""

    setting: Setting
    network: str
    size: tuple[int, int]
    arms: dict[tuple[Norm, str], Result]
    controls: tuple[Result, ...]

    @property
    def place(self) -> str:
        """Return network, preset and size, e.g. `gpt2-tiny 2x64`."""
        return f"{self.network}-{self.setting.preset} {self.shape}"

    @property
    def shape(self) -> str:
        return shape_text(self.size)

    @property
    def norms(self) -> list[Norm]:
        return sorted(dict.fromkeys(norm for norm, _ in self.arms), key=list(Norm).index)

    @property
    def providers(self) -> list[str]:
        """Return the providers, built-in ones first."""
        known = list(BUILT_IN)
        names = dict.fromkeys(provider for _, provider in self.arms)
        return sorted(names, key=lambda name: known.index(name) if name in known else len(known))

    @property
    def ordered(self) -> list[tuple[Norm, str, Result]]:
        """Return norm, provider and result of each arm, norm by norm."""
        cells = ((norm, provider, self.arms.get((norm, provider))) for norm in self.norms for provider in self.providers)
        return [(norm, provider, one) for norm, provider, one in cells if one is not None]

    def fastest(self, norm: Norm) -> list[str]:
        """Return the provider with the most tokens per second and those that cannot be told from it; none unless two took turns."""
        return fastest(one for mine, _, one in self.ordered if mine is norm)

    def ahead(self, norm: Norm) -> tuple[str, str, Interval] | None:
        """Return the provider with the most tokens per second, the next one, and the ratio of theirs; None where that is not known."""
        timed = [(one.rate.estimate, provider, one) for mine, provider, one in self.ordered if mine is norm and one.rate is not None]
        if len(timed) < 2:
            return None
        (_, first, best), (_, second, next_best) = sorted(timed, key=lambda each: -each[0])[:2]
        ratio = metric_ratio(best.record, next_best.record)
        return None if ratio is None else (first, second, ratio)

    def over_layer_norm(self, norm: Norm, provider: str) -> Interval | None:
        """Return the rate of a norm over LayerNorm's by the same provider."""
        mine, layer = self.arms.get((norm, provider)), self.arms.get((Norm.LAYER_NORM, provider))
        if norm is Norm.LAYER_NORM or mine is None or layer is None or mine.rate is None or layer.rate is None:
            return None
        return metric_ratio(mine.record, layer.record)

    def ceiling(self, norm: Norm, provider: str) -> Interval | None:
        """Return the rate of the network without norms over that of an arm: what norms of no cost would gain."""
        mine = self.arms.get((norm, provider))
        if mine is None or mine.rate is None:
            return None
        without = next((one for one in self.controls if one.record.group == mine.record.group and one.rate is not None), None)
        return None if without is None else metric_ratio(without.record, mine.record)


def by_company(results: Iterable[Result]) -> list[Company]:
    """Return the throughput tier's results by what took turns: training before serving, then by setting, network and size.

    Groups end in whatever order they are narrow enough: that of the records says nothing.
    """
    grouped: dict[tuple[Setting, str, tuple[int, int]], list[tuple[ThroughputCase, Result]]] = {}
    for one in results:
        case = one.record.case
        if isinstance(case, ThroughputCase):
            setting = Setting(
                machine=one.record.machine,
                preset=case.preset,
                mode=case.mode,
                dtype=case.dtype,
                options=case.options,
                conditions=one.record.conditions,
            )
            grouped.setdefault((setting, case.network, case.size), []).append((case, one))
    companies = [
        Company(
            setting=setting,
            network=network,
            size=size,
            arms={(case.norm, one.record.provider): one for case, one in members if one.record.role is Role.PROVIDER},
            controls=tuple(one for _, one in members if one.record.provider == NO_NORM and one.record.role is Role.CONTROL),
        )
        for (setting, network, size), members in grouped.items()
    ]
    settings = list(dict.fromkeys(one.setting for one in companies))
    return sorted(companies, key=lambda one: (list(Mode).index(one.setting.mode), settings.index(one.setting), one.network, one.size))


def by_setting(companies: Sequence[Company]) -> dict[Setting, list[Company]]:
    """Return the companies of each setting, in the order in which they are given."""
    grouped: dict[Setting, list[Company]] = {}
    for one in companies:
        grouped.setdefault(one.setting, []).append(one)
    return grouped
