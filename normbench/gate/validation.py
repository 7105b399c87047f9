"""What many whole gate runs say of the gate: false alarms, detection, spread, and what other tools made of the same samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log1p, sqrt
from statistics import fmean, stdev

import msgspec
import numpy as np
from scipy.special import betaincinv

from .decide import Decision, Supply, Verdict, decide, detectable_slowdown
from .flips import locate
from .peers import Call, Rule
from .policy import Policy

__all__ = [
    "CaseSpread",
    "Detection",
    "FalseAlarms",
    "GateRun",
    "PeerRate",
    "PeerSample",
    "Rate",
    "detections",
    "false_alarms",
    "peer_rates",
    "rate",
    "resampled_alarms",
    "spreads",
]

LEVEL = 0.95


class GateRun(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one whole run of the gate: the log(head / base) of each block of each case, in order, and what was decided.

    `slowdown` is the true size of what was put into head's case `slowed` (0.05: 5 %), measured on its own; 0 and null when both
    sides are the same. `asked` is its nominal size, by which runs are grouped. `policy` and `cases`, the number the error
    rate was shared by, allow the decisions to be taken again.
    """

    policy: Policy
    cases: int
    logs: Mapping[str, tuple[float, ...]]
    verdicts: Mapping[str, Verdict]
    asked: float = 0.0
    slowdown: float = 0.0
    slowed: str | None = None
    seconds: float | None = None

    @property
    def is_same_code(self) -> bool:
        return self.slowed is None

    def is_false(self, case: str) -> bool:
        """Say whether the case is called slower though nothing was put into it."""
        return case != self.slowed and self.verdicts[case] is Verdict.REGRESSION


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how many of how many, and the exact binomial interval of the share (Clopper and Pearson 1934)."""

    hits: int
    total: int
    low: float
    high: float
    level: float = LEVEL

    @property
    def share(self) -> float | None:
        """Return hits / total, or None of nothing."""
        return self.hits / self.total if self.total else None


def rate(hits: int, total: int, level: float = LEVEL) -> Rate:
    """Return a share with its exact interval; 0 to 1 where there was nothing to count."""
    tail = (1 - level) / 2
    low = float(betaincinv(hits, total - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, total - hits, 1 - tail)) if hits < total else 1.0
    return Rate(hits=hits, total=total, low=low, high=high, level=level)


class FalseAlarms(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how often identical code was called slower: whole runs with any red case, and cases one by one.

    `beside` counts the runs with a slow-down in one case in which another case was called slower.
    """

    runs: Rate
    cases: Rate
    beside: Rate


def false_alarms(runs: Sequence[GateRun]) -> FalseAlarms:
    """Count what was called slower though nothing was put into it."""
    same = [run for run in runs if run.is_same_code]
    slowed = [run for run in runs if not run.is_same_code]
    called = [run.is_false(case) for run in same for case in run.verdicts]
    return FalseAlarms(
        runs=_any_false(same),
        cases=rate(sum(called), len(called)),
        beside=_any_false(slowed),
    )


def _any_false(runs: Sequence[GateRun]) -> Rate:
    return rate(sum(any(run.is_false(case) for case in run.verdicts) for run in runs), len(runs))


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how many slow-downs of one nominal size were found, how many cases were called not gateable, and the mean true size."""

    asked: float
    slowdown: float
    found: Rate
    not_gateable: int


def detections(runs: Iterable[GateRun]) -> list[Detection]:
    """Return one row per nominal size, smallest first."""
    by_size: dict[float, list[tuple[float, Verdict]]] = {}
    for run in runs:
        if run.slowed is not None:
            by_size.setdefault(run.asked, []).append((run.slowdown, run.verdicts[run.slowed]))
    return [
        Detection(
            asked=asked,
            slowdown=fmean(true for true, _ in seen),
            found=rate(sum(verdict is Verdict.REGRESSION for _, verdict in seen), len(seen)),
            not_gateable=sum(verdict is Verdict.NOT_GATEABLE for _, verdict in seen),
        )
        for asked, seen in sorted(by_size.items())
    ]


class CaseSpread(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how a case scatters: within runs (the standard deviation of a block), and the mean and scatter of whole runs.

    `between` is the standard deviation of the runs' centres, and `expected_between` what blocks alone would give: more says that
    something stays the same for a whole run. `serial` is the correlation of a block with the next one, from -1 to 1: sign flips rest
    on none, and 0.5 with blocks of 2.5 % makes one run of six cases in ten call a change. `bias` is the mean of the centres. All
    but `serial` are logs, so 0.01 is about 1 %; a slow-down that was put in is taken out. `smallest_detectable` is a share, at the
    last look.
    """

    case: str
    runs: int
    blocks: int
    within: float
    bias: float
    between: float | None
    expected_between: float
    serial: float | None
    smallest_detectable: float | None


def spreads(runs: Sequence[GateRun]) -> list[CaseSpread]:
    """Return one row per case, in the order they first appear; runs with fewer than four blocks of it are left out."""
    found = []
    for case in dict.fromkeys(case for run in runs for case in run.logs):
        having = [run for run in runs if len(run.logs.get(case, ())) >= 4]
        if not having:
            continue
        policy, cases = having[0].policy, having[0].cases
        located = [locate(_own(run, case)) for run in having]
        within = sqrt(fmean(one.spread**2 for one in located))
        centres = [one.centre for one in located]
        found.append(
            CaseSpread(
                case=case,
                runs=len(having),
                blocks=sum(one.count for one in located),
                within=within,
                bias=fmean(centres),
                between=stdev(centres) if len(centres) > 1 else None,
                expected_between=sqrt(fmean(one.error**2 for one in located)),
                serial=_serial([_own(run, case) for run in having]),
                smallest_detectable=detectable_slowdown(policy, cases=cases, spread=within, blocks=policy.looks[-1]),
            )
        )
    return found


def _own(run: GateRun, case: str) -> list[float]:
    """Return the logs of a case without what was put into it."""
    shift = log1p(run.slowdown) if case == run.slowed else 0.0
    return [value - shift for value in run.logs[case]]


def _serial(runs: Sequence[Sequence[float]]) -> float | None:
    """Return the lag-one correlation within runs, pooled; None without any scatter.

    Ranks within a run, so that one wild block does not decide; each run's own centre makes independent blocks appear to be
    correlated by -1 / count (Kendall 1954), which is added back.
    """
    products = squares = 0.0
    expected = []
    for logs in runs:
        ranks = np.argsort(np.argsort(logs)) - (len(logs) - 1) / 2
        products += float(np.dot(ranks[1:], ranks[:-1]))
        squares += float(np.dot(ranks, ranks))
        expected.append(1 / len(logs))
    return products / squares + fmean(expected) if squares else None


def resampled_alarms(runs: Sequence[GateRun], *, policy: Policy, samples: int, seed: int) -> Rate:
    """Return the share of runs called red when whole runs are drawn again from the stored blocks of identical code.

    Each sample draws, for every case, as many blocks as the last look has from all its blocks, with replacement, and decides by the
    rule, whose error rate is shared by controls too. One draw serves all cases: where they have equally many blocks, what hit several
    cases in one block hits them together. The blocks keep their bias and their outliers; what joins the blocks of one run is lost.
    Raises ValueError without a run of identical code.
    """
    same = [run for run in runs if run.is_same_code]
    if not same:
        raise ValueError("there is no run of identical code to draw from")
    pools = {case: np.array([value for run in same for value in run.logs.get(case, ())]) for case in same[0].logs}
    pools = {case: pool for case, pool in pools.items() if len(pool)}
    rng = np.random.default_rng(seed)
    red = 0
    for _ in range(samples):
        where = rng.random(policy.looks[-1])
        red += any(_redecided(policy, pool[(where * len(pool)).astype(int)], same[0].cases) for pool in pools.values())
    return rate(red, samples)


def _redecided(policy: Policy, logs: np.ndarray, cases: int) -> bool:
    decision: Decision = decide(policy, logs.tolist(), cases=cases, supply=Supply.CLOSED)
    return decision.verdict is Verdict.REGRESSION


class PeerSample(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what the rules of other tools said of one case in one run. `manner` is how its samples were taken, e.g. `sequential`."""

    run: int
    case: str
    manner: str
    is_slowed: bool
    calls: Mapping[Rule, Call]


class PeerRate(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one rule's red runs among those with nothing slowed, and the slowed cases it found. What it cannot judge is not counted."""

    rule: Rule
    manner: str
    red_runs: Rate
    found: Rate


def peer_rates(samples: Sequence[PeerSample]) -> list[PeerRate]:
    """Return one row per manner and rule. A run of identical code is red when any of its cases is."""
    rows = []
    slowed_runs = {one.run for one in samples if one.is_slowed}
    for manner in dict.fromkeys(one.manner for one in samples):
        here = [one for one in samples if one.manner == manner]
        for rule in Rule:
            judged = [one for one in here if one.calls.get(rule, Call.UNKNOWN) is not Call.UNKNOWN]
            by_run: dict[int, bool] = {}
            for one in judged:
                if one.run not in slowed_runs:
                    by_run[one.run] = by_run.get(one.run, False) or one.calls[rule] is Call.RED
            slowed = [one.calls[rule] is Call.RED for one in judged if one.is_slowed]
            rows.append(
                PeerRate(rule=rule, manner=manner, red_runs=rate(sum(by_run.values()), len(by_run)), found=rate(sum(slowed), len(slowed)))
            )
    return rows
