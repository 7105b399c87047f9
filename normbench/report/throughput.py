"""Training and serving as tables: tokens per second, latencies, and what a token costs in memory and energy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import msgspec

from ..cases.case import Norm
from ..cases.throughput_case import Mode
from ..quantities.stats import Interval
from ..quantities.units import DASH, bytes_text, duration, interval_text, join_words, number, percent, rate_text, some
from ..records.record import Role
from ..results.derived import BASELINE, Result
from ..results.rates import QUANTILES, SustainedRates, latencies, per_gib, sustained_rates
from ..results.scaling import scaling_note, scaling_of
from ..storage.stored_run import RunInfo
from ..text.markdown import escape
from .commands import throughput_command
from .companies import Company, Setting, by_setting
from .tables import Table, told_ratio

__all__ = ["LATENCY", "ThroughputSection", "throughput_notes", "throughput_sections"]

LATENCY = {
    Mode.TRAIN: "Time of a training step",
    Mode.PREFILL: "Time to first token, of the whole batch at once",
    Mode.DECODE: "Inter-token latency: the time in which every sequence of the batch gets one more token",
}
"""What a single call's time is to whoever waits for it."""

_WORK = {
    Mode.TRAIN: "A training step is forward, loss and backward of each microbatch, then the optimiser (AdamW).",
    Mode.PREFILL: "A prefill reads the prompts of a batch and chooses the first token after each.",
    Mode.DECODE: "A decode step writes one token of each sequence, from a cache of keys and values; a size is batch x positions, of which "
    "the first three quarters are prompt.",
}
_NO_NORMS = "no norms"
_SERIES = {"clock_mhz": "clock, MHz", "temperature_c": "temperature, °C", "power_w": "power, W"}
_READ = {"energy_j": "energy", "clock_mhz": "clock", "temperature_c": "temperature", "power_w": "power", "throttled": "word of throttling"}
"""What a sustained run tells beside its rate, in words."""


class ThroughputSection(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what is told of one network in one mode, under one set of conditions; a table is None where nothing of it was measured."""

    title: str
    circumstances: str
    work: str
    rates: Table
    latency_title: str
    latency: Table | None
    costs: Table | None
    sustained: Table | None
    scaling: Table | None
    notes: list[str]
    command: str


def throughput_sections(info: RunInfo, companies: Sequence[Company]) -> list[ThroughputSection]:
    """Return a section for each network, mode, dtype, set of options and of conditions."""
    return [
        _section(info, setting, [one for one in members if one.network == network])
        for setting, members in by_setting(companies).items()
        for network in dict.fromkeys(one.network for one in members)
    ]


def _section(info: RunInfo, setting: Setting, companies: Sequence[Company]) -> ThroughputSection:
    results = [one for company in companies for _, _, one in company.ordered]
    return ThroughputSection(
        title=f"{companies[0].network}-{setting.preset}, {setting.title}",
        circumstances=setting.circumstances,
        work=_WORK[setting.mode],
        rates=_rates(companies),
        latency_title=LATENCY[setting.mode],
        latency=_latency(companies) if any(one.rate for one in results) else None,
        costs=_costs(companies) if any(one.record.memory or one.record.first_call_s is not None for one in results) else None,
        sustained=_sustained(companies) if any(one.record.sustained for one in results) else None,
        scaling=_scaling(companies),
        notes=_notes(results),
        command=throughput_command(info, companies),
    )


def _rows(companies: Sequence[Company], cells: Callable[[Company, Norm, str, Result], list[str]]) -> list[list[str]]:
    """Return a row for each arm: size, norm and provider before its cells."""
    return [
        [company.shape, norm.value, escape(provider), *cells(company, norm, provider, one)]
        for company in companies
        for norm, provider, one in company.ordered
    ]


def _rates(companies: Sequence[Company]) -> Table:
    """Lay out sizes and arms x what their rates are, and are over others; the network without norms is the last row of a size."""

    def cells(company: Company, norm: Norm, provider: str, one: Result) -> list[str]:
        if one.rate is None:
            word = "no rate" if one.problem else one.record.status.value
            return [word, DASH, DASH, DASH]
        bold = provider in company.fastest(norm)
        text = f"**{rate_text(one.rate)}**" if bold else rate_text(one.rate)
        mark = f", {one.record.status.value}" if one.record.status.value != "ok" else ""
        baseline = "baseline" if provider == BASELINE else _ratio(one.speedup) if one.speedup else one.speedup_missing or DASH
        layer = "baseline" if norm is Norm.LAYER_NORM else _ratio(company.over_layer_norm(norm, provider))
        return [text + mark, baseline, layer, _ratio(company.ceiling(norm, provider))]

    rows = []
    for company in companies:
        rows += _rows([company], cells)
        rows += [
            [company.shape, _NO_NORMS, DASH, rate_text(one.rate), DASH, DASH, DASH] for one in company.controls if one.rate is not None
        ]
    return Table(["size", "norm", "provider", "tokens/s", f"over {BASELINE}", "over LayerNorm", f"{_NO_NORMS} over it"], rows)


def _ratio(ratio: Interval | None) -> str:
    return DASH if ratio is None else told_ratio(ratio)


def _latency(companies: Sequence[Company]) -> Table:
    def cells(company: Company, norm: Norm, provider: str, one: Result) -> list[str]:
        if one.time is None or one.record.measurement is None:
            return [DASH] * (len(QUANTILES) + 1)
        found = latencies(one.record.measurement)
        told = [found.value_s(name) for name in QUANTILES]
        return [*(DASH if value is None else duration(value) for value in told), str(found.samples)]

    return Table(["size", "norm", "provider", *QUANTILES, "calls"], _rows(companies, cells))


def _costs(companies: Sequence[Company]) -> Table:
    def cells(company: Company, norm: Norm, provider: str, one: Result) -> list[str]:
        memory = one.record.memory
        peak, saved = (None, None) if memory is None else (memory.peak_bytes, memory.saved_bytes)
        share = per_gib(one.rate, memory) if one.rate is not None else None
        first_s = one.record.first_call_s
        return [
            DASH if peak is None else bytes_text(peak),
            DASH if saved is None else bytes_text(saved),
            DASH if share is None else number(share),
            DASH if first_s is None else duration(first_s),
        ]

    header = ["size", "norm", "provider", "peak above weights", "kept for backward", "tokens/s per GiB of peak", "first call"]
    return Table(header, _rows(companies, cells))


def _sustained(companies: Sequence[Company]) -> Table:
    """Lay out arms x what they did by themselves; columns of which nothing could be read are left out, and notes say why."""
    results = [one for company in companies for _, _, one in company.ordered]
    names = {name for one in results if one.record.sustained for name in one.record.sustained.series}
    has_energy = any(_rates_of(one).joules_per_token is not None for one in results)
    columns: dict[str, Callable[[Result], str]] = {"tokens/s": lambda one: _number(_rates_of(one).tokens_per_s)}
    if has_energy:
        columns["J/token"] = lambda one: _number(_rates_of(one).joules_per_token)
        columns["tokens/J"] = lambda one: _number(_rates_of(one).tokens_per_joule)
    columns |= {label: partial(_span, name=name) for name, label in _SERIES.items() if name in names}
    rows = _rows(companies, lambda company, norm, provider, one: [_seconds(one), *(column(one) for column in columns.values())])
    return Table(["size", "norm", "provider", "run for", *columns], rows)


def _seconds(one: Result) -> str:
    sustained = one.record.sustained
    if sustained is None or not sustained.calls:
        return "failed" if sustained is not None else DASH
    return duration(sustained.duration_s) + (", throttled" if sustained.throttled else "")


def _scaling(companies: Sequence[Company]) -> Table | None:
    """Lay out arms x what several processes make of them beside one; None where no network was trained by several."""
    rows = [
        [
            company.shape,
            escape(one.record.case.arm(one.record.provider) if one.record.role is Role.PROVIDER else _NO_NORMS),
            rate_text(found.together),
            rate_text(found.alone),
            f"{number(found.efficiency.estimate)} {interval_text(found.efficiency)}",
            f"{found.slowest} in {percent(found.slowest_share)}",
            percent(found.spread),
        ]
        for company in companies
        for one in (*(one for _, _, one in company.ordered), *company.controls)
        if (found := scaling_of(one.record)) is not None
    ]
    header = ["size", "arm", "tokens/s", "of one process", "efficiency", "slowest rank", "spread over ranks"]
    return Table(header, rows) if rows else None


def _number(value: float | None) -> str:
    return DASH if value is None else number(value)


def _span(one: Result, name: str) -> str:
    """Return the median of a series, and its ends where it moved."""
    series = one.record.sustained.series.get(name, ()) if one.record.sustained is not None else ()
    values = [value for value in series if value is not None]
    if not values:
        return DASH
    ends = f" ({number(min(values))}{DASH}{number(max(values))})" if max(values) > min(values) else ""
    return f"{number(median(values))}{ends}"


def _notes(results: Sequence[Result]) -> list[str]:
    """Return what explains a dash or a mark in the tables, each reason once."""
    measured = [one for one in results if one.rate is not None]
    notes = [_which("throttled", one) for one in _reasons(measured, lambda one: one.record.reason)]
    percentiles = [latencies(one.record.measurement).missing for one in measured if one.record.measurement is not None]
    if missing := list(dict.fromkeys(reason for found in percentiles for reason in found.values())):
        notes.append(f"a dash in place of a percentile: {join_words(missing)}")
    if shared := scaling_note([one.record for one in results]):
        notes.append(escape(shared.rstrip(".")))
    notes += [_which("memory not measured", one) for one in _reasons(measured, _memory_reason)]
    notes += [_which("not run by itself", one) for one in _reasons(measured, lambda one: _rates_of(one).missing)]
    if sources := dict.fromkeys(source for one in measured if (source := _rates_of(one).source)):
        notes.append(f"energy is the difference of the counter {join_words(map(escape, sources))}, whatever else drew power meanwhile")
    unread: dict[str, list[str]] = {}
    for name, label in _READ.items():
        for reason, _ in _reasons(measured, lambda one, name=name: _why_unread(one, name)):  # type: ignore[misc]
            unread.setdefault(reason, []).append(label)
    return notes + [f"no {join_words(labels, 'or')}: {escape(reason)}" for reason, labels in unread.items()]


def throughput_notes(sections: Sequence[ThroughputSection]) -> list[str]:
    """Return the notes that hold in every section: told once is enough."""
    return [note for note in sections[0].notes if all(note in one.notes for one in sections)] if sections else []


def _memory_reason(one: Result) -> str | None:
    return one.record.memory.reason if one.record.memory is not None else None


def _rates_of(one: Result) -> SustainedRates:
    return sustained_rates(one.record.sustained, one.record.metric)


def _why_unread(one: Result, name: str) -> str | None:
    """Return why a figure of a sustained run could not be read, None where it was or where there was no such run."""
    found = _rates_of(one)
    if found.missing is not None or one.record.sustained is None:
        return None
    return found.energy_missing if name == "energy_j" else one.record.sustained.reasons.get(name)


def _reasons(results: Sequence[Result], reason: Callable[[Result], str | None]) -> list[tuple[str, list[str]]]:
    """Return each reason with the names of the arms that have it, in the order in which they were met."""
    grouped: dict[str, list[str]] = {}
    for one in results:
        if text := reason(one):
            grouped.setdefault(text, []).append(f"`{one.record.case.arm(one.record.provider)}` {one.record.case.shape_label}")
    return list(grouped.items())


def _which(what: str, found: tuple[str, list[str]], most: int = 6) -> str:
    reason, names = found
    return f"{what}: {some(names, most)}: {escape(reason)}"
