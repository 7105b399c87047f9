"""What a validation found, in Markdown: false alarms, detection, spreads, and other tools' rules on the same samples. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..quantities.units import DASH, percent, percent_given
from ..text.markdown import escape, table
from .outcome import ExitCode
from .peers import SOURCES
from .policy import Policy
from .validation import (
    CaseSpread,
    Detection,
    FalseAlarms,
    GateRun,
    PeerRate,
    PeerSample,
    Rate,
    detections,
    false_alarms,
    peer_rates,
    resampled_alarms,
    spreads,
)

__all__ = ["Findings", "analysed", "markdown", "sentence", "tables"]

RESAMPLES = 2000

_SIZES = ("asked", "true size, measured apart", "found", "share", "95 % interval", "called not gateable")
_PEERS = ("samples", "rule", "red runs of the same code", "share", "slow-downs found", "share")
_SPREADS = (
    "case",
    "blocks",
    "spread of a block",
    "bias",
    "spread of runs",
    "as blocks explain",
    "next block's correlation",
    "smallest change",
)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Hold all that a validation says. `ends` counts runs by exit code; `seconds` are of the shortest, the median and the longest.

    `resampled` is None without a run of the same code.
    """

    policy: Policy
    runs: int
    ends: dict[str, int]
    seconds: tuple[float, float, float]
    alarms: FalseAlarms
    resampled: Rate | None
    detections: tuple[Detection, ...]
    spreads: tuple[CaseSpread, ...]
    peers: tuple[PeerRate, ...]


def analysed(runs: Sequence[GateRun], exits: Sequence[ExitCode], peers: Sequence[PeerSample], *, seed: int) -> Findings:
    """Return what at least one run says, with the peers' calls on the same samples."""
    policy = runs[0].policy
    taken = sorted(run.seconds for run in runs if run.seconds is not None) or [0.0]
    same = any(run.is_same_code for run in runs)
    return Findings(
        policy=policy,
        runs=len(runs),
        ends={code.name.lower(): exits.count(code) for code in ExitCode if code in exits},
        seconds=(taken[0], taken[len(taken) // 2], taken[-1]),
        alarms=false_alarms(runs),
        resampled=resampled_alarms(runs, policy=policy, samples=RESAMPLES, seed=seed) if same else None,
        detections=tuple(detections(runs)),
        spreads=tuple(spreads(runs)),
        peers=tuple(peer_rates(peers)),
    )


def sentence(found: Findings) -> str:
    """Return the outcome in a sentence."""
    said = []
    if found.alarms.runs.total:
        said.append(f"{found.alarms.runs.hits} of {found.alarms.runs.total} runs of the same code were red")
    said += [
        f"{one.found.hits} of {one.found.total} slow-downs of {percent_given(one.asked)} were found"
        for one in found.detections
        if one.found.total
    ]
    if found.alarms.beside.total:
        said.append(f"{found.alarms.beside.hits} of {found.alarms.beside.total} runs with one called another case slower")
    return "; ".join(said) + "."


def markdown(found: Findings, *, title: str, place: str) -> str:
    """Return the whole report."""
    low, middle, high = found.seconds
    ends = ", ".join(f"{name} {count}" for name, count in found.ends.items())
    margin, error_rate = percent_given(found.policy.margin), percent_given(found.policy.error_rate)
    lines = [
        f"# {escape(title)}",
        "",
        f"**{sentence(found)}**",
        "",
        f"{found.runs} whole runs on {escape(place)}. Margin {margin}, error rate {error_rate} a run, all cases together. A run took "
        f"{low:.0f} to {high:.0f} s, {middle:.0f} s in the middle; ends: {ends}. Intervals are exact binomial ones, 95 %.",
        "",
    ]
    titles = ("How often", "Slow-downs that were put in", "Cases", "The rules of other tools on the same samples")
    for heading, (columns, rows) in zip(titles, tables(found), strict=True):
        if rows:
            lines += [f"## {heading}", "", *table(columns, rows), ""]
    if found.peers:
        lines += [f"- {source}" for source in SOURCES.values()]
    return "\n".join(lines).rstrip() + "\n"


def tables(found: Findings) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return columns and rows of what is shown: how often, the slow-downs, the cases, and other tools' rules. Any may have no row."""
    return [
        (("question", "runs or cases", "share", "95 % interval"), _rates(found)),
        (_SIZES, list(map(_detection, found.detections))),
        (_SPREADS, list(map(_spread, found.spreads))),
        (_PEERS, list(map(_peer, found.peers))),
    ]


def _rates(found: Findings) -> list[tuple[str, ...]]:
    rows = [
        ("runs of the same code called red", found.alarms.runs),
        ("cases of the same code called slower", found.alarms.cases),
        ("runs with a slow-down that called another case slower", found.alarms.beside),
    ]
    if found.resampled is not None:
        rows.append(("red runs when blocks of the same code are drawn again", found.resampled))
    return [(what, *_rate(one)) for what, one in rows if one.total]


def _rate(one: Rate) -> tuple[str, str, str]:
    return _counts(one), _share(one), f"{100 * one.low:.1f}{DASH}{100 * one.high:.1f} %"


def _counts(one: Rate) -> str:
    return f"{one.hits} of {one.total}" if one.total else DASH


def _share(one: Rate) -> str:
    return DASH if one.share is None else f"{100 * one.share:.3g} %"


def _detection(one: Detection) -> tuple[str, ...]:
    return percent_given(one.asked), percent(one.slowdown), *_rate(one.found), str(one.not_gateable)


def _spread(one: CaseSpread) -> tuple[str, ...]:
    def log(value: float | None) -> str:
        return DASH if value is None else f"{100 * value:.2f} %"

    serial = DASH if one.serial is None else f"{one.serial:+.2f}"
    limit = DASH if one.smallest_detectable is None else f"{100 * one.smallest_detectable:.1f} %"
    return one.case, str(one.blocks), log(one.within), log(one.bias), log(one.between), log(one.expected_between), serial, limit


def _peer(one: PeerRate) -> tuple[str, ...]:
    return one.manner, one.rule.value, _counts(one.red_runs), _share(one.red_runs), _counts(one.found), _share(one.found)
