"""Who trains and serves fastest, by how much, and what another norm or none would gain, as sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..cases.case import Norm
from ..cases.throughput_case import Mode
from ..quantities.stats import Interval
from ..quantities.units import join_words, ratio_text
from .companies import Company, Setting, by_setting
from .tables import on_machine, told_ratio

__all__ = ["norm_gains", "throughput_answers"]

_DOES = {Mode.TRAIN: "trains", Mode.PREFILL: "reads prompts", Mode.DECODE: "writes tokens"}
_SINGLE = "a single measurement, so no interval and no verdict,"
_Placed = list[tuple[Company, Interval]]


def throughput_answers(companies: Sequence[Company]) -> list[str]:
    """Return one sentence per setting and norm: which provider has the most tokens per second where, and by how much."""
    settings = by_setting(companies)
    return [
        f"{_head(setting, list(settings))}, {norm.value}: {told}"
        for setting, members in settings.items()
        for norm in Norm
        if (told := _providers(setting, members, norm))
    ]


def norm_gains(companies: Sequence[Company]) -> list[str]:
    """Return one sentence per setting and provider: RMSNorm's tokens per second over LayerNorm's, and what no norms would gain at most."""
    settings = by_setting(companies)
    return [
        f"{_head(setting, list(settings))}, layer_norm → rms_norm, `{provider}`: {told}"
        for setting, members in settings.items()
        for provider in dict.fromkeys(name for one in members for name in one.providers)
        if (told := _gain(members, provider))
    ]


def _head(setting: Setting, settings: Sequence[Setting]) -> str:
    """Return what a sentence is about, with whatever else than the mode differs between the run's settings."""
    more = [setting.conditions.id] if len({one.conditions for one in settings}) > 1 else []
    more += [setting.preset] if len({one.preset for one in settings}) > 1 else []
    return f"**{setting.title}**" + (f" ({', '.join(more)})" if more else "") + on_machine(setting.machine)


def _providers(setting: Setting, companies: Sequence[Company], norm: Norm) -> str:
    """Return who is fastest with a norm; where all cannot be told apart, that."""
    wins: dict[tuple[str, str], _Placed] = {}
    ties: dict[str, list[Company]] = {}
    single: list[Company] = []
    timed: set[str] = set()
    for company in companies:
        names, ahead = company.fastest(norm), company.ahead(norm)
        timed |= {provider for mine, provider, one in company.ordered if mine is norm and one.rate is not None}
        if names and ahead is not None and ahead[2].low is None:
            single.append(company)
        elif len(names) > 1:
            ties.setdefault(join_words(f"`{name}`" for name in sorted(names)), []).append(company)
        elif names and ahead is not None:
            wins.setdefault(ahead[:2], []).append((company, ahead[2]))
    compared = sum(map(len, wins.values())) + sum(map(len, ties.values())) + len(single)
    if not compared:
        only = f"nothing to compare: only {join_words(f'`{name}`' for name in sorted(timed))} was measured side by side" if timed else ""
        return only or ("nothing was measured" if any(mine is norm for one in companies for mine, _ in one.arms) else "")
    parts = [
        f"`{first}` {_DOES[setting.mode]} fastest{_count(len(placed), compared)}, tokens/s over the next, `{second}`: {_range(placed)}"
        for (first, second), placed in sorted(wins.items(), key=lambda pair: -len(pair[1]))
    ]
    parts += [f"no difference told between {names}{_where(places, compared)}" for names, places in ties.items()]
    if single:
        parts.append(f"{_SINGLE}{_where(single, compared)}")
    return "; ".join(parts)


def _gain(companies: Sequence[Company], provider: str) -> str:
    found = [(one, ratio) for one in companies if (ratio := one.over_layer_norm(Norm.RMS_NORM, provider)) is not None]
    if not found:
        return ""
    more = [(one, ratio) for one, ratio in found if ratio.excludes(1.0) and ratio.estimate > 1]
    fewer = [(one, ratio) for one, ratio in found if ratio.excludes(1.0) and ratio.estimate < 1]
    parts = [
        f"{word} tokens/s{_count(len(placed), len(found))}, {_range(placed)}"
        for word, placed in (("more", more), ("fewer", fewer))
        if placed
    ]
    if untold := [one for one, ratio in found if ratio.low is not None and not ratio.excludes(1.0)]:
        parts.append(f"no difference told{_where(untold, len(found))}")
    if single := [one for one, ratio in found if ratio.low is None]:
        parts.append(f"{_SINGLE}{_where(single, len(found))}")
    ceilings = [(one, ratio) for one, _ in found if (ratio := one.ceiling(Norm.LAYER_NORM, provider)) is not None]
    if ceilings:
        company, most = max(ceilings, key=lambda pair: pair[1].estimate)
        parts.append(f"no norms at all would give {told_ratio(most)} LayerNorm's at most, at {company.place}")
    return "; ".join(parts)


def _range(placed: _Placed) -> str:
    """Return the least and the greatest ratio with their places, or the only one."""
    low, high = min(placed, key=lambda pair: pair[1].estimate), max(placed, key=lambda pair: pair[1].estimate)
    ends = [low] if low is high else [low, high]
    return " to ".join(f"{ratio_text(ratio)} at {company.place}" for company, ratio in ends)


def _count(count: int, whole: int) -> str:
    return f" at {count} of {whole}" if whole > 1 else ""


def _where(companies: Sequence[Company], whole: int) -> str:
    return f" at {len(companies)} of {whole}" if whole > 1 else f" ({companies[0].place})"
