"""What other tools would say of the same samples. Pure.

Each rule is the tool's own, read in its source; none was made for runs that take turns, and none shares an error rate out over
cases. Samples are seconds per call. All rules but pyperf's ask only whether head is worse; "red" is what fails the build, or, for pyperf,
which never does, what its table calls significantly slower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import comb, erfc, isfinite, sqrt
from statistics import fmean, median

import numpy as np
from scipy.special import stdtrit

__all__ = ["SOURCES", "Call", "Rule", "calls", "judge", "mann_whitney_p"]


class Rule(StrEnum):
    """Name a tool and its rule."""

    PYTEST_BENCHMARK_MIN = "pytest-benchmark min:5%"
    PYTEST_BENCHMARK_MEDIAN = "pytest-benchmark median:5%"
    PYTEST_BENCHMARK_MEAN = "pytest-benchmark mean:5%"
    ASV = "asv factor 1.1"
    ASV_TEST = "asv factor 1"
    GITHUB_ACTION_BENCHMARK = "github-action-benchmark 200%"
    PYPERF = "pyperf t-test"


SOURCES: Mapping[Rule, str] = {
    Rule.PYTEST_BENCHMARK_MIN: "pytest-benchmark 5.3, --benchmark-compare-fail=min:5%: utils.PercentageRegressionCheck",
    Rule.PYTEST_BENCHMARK_MEDIAN: "pytest-benchmark 5.3, --benchmark-compare-fail=median:5%: utils.PercentageRegressionCheck",
    Rule.PYTEST_BENCHMARK_MEAN: "pytest-benchmark 5.3, --benchmark-compare-fail=mean:5%: utils.PercentageRegressionCheck",
    Rule.ASV: "asv 0.6, asv continuous (factor 1.1 by default): commands/compare.py _is_result_better, _stats.is_different",
    Rule.ASV_TEST: "asv 0.6, asv continuous --factor 1: its Mann-Whitney test by itself",
    Rule.GITHUB_ACTION_BENCHMARK: "github-action-benchmark 1, tool pytest, alert-threshold 200% (the default), fail-on-alert: src/write.ts",
    Rule.PYPERF: "pyperf 2.11, pyperf compare_to: _utils.is_significant, _compare.is_significant_benchs",
}
"""Where each rule was read."""


class Call(StrEnum):
    """Say what a rule made of two sets of samples."""

    RED = "red"
    GREEN = "green"
    UNKNOWN = "unknown"
    """The rule cannot be applied: a set is empty or has a value that is no time, or asv's has too few for its test."""


PERCENT = 5
ASV_P = 0.002
ASV_EXACT = 20
ALERT_RATIO = 2.0


def judge(rule: Rule, base: Sequence[float], head: Sequence[float]) -> Call:
    """Return what one rule says of two sets of samples of one case."""
    for samples in (base, head):
        if not samples or not all(isfinite(sample) and sample > 0 for sample in samples):
            return Call.UNKNOWN
    return _JUDGES[rule](base, head)


def calls(base: Sequence[float], head: Sequence[float]) -> dict[Rule, Call]:
    """Return what every rule says of two sets of samples of one case."""
    return {rule: judge(rule, base, head) for rule in Rule}


def _called(red: bool) -> Call:
    return Call.RED if red else Call.GREEN


def _percentage(statistic: Callable[[Sequence[float]], float]) -> Callable[[Sequence[float], Sequence[float]], Call]:
    """Return pytest-benchmark's check: red when the statistic grew by more than the percentage."""

    def judged(base: Sequence[float], head: Sequence[float]) -> Call:
        return _called(statistic(head) / statistic(base) * 100 - 100 > PERCENT)

    return judged


def _alert(base: Sequence[float], head: Sequence[float]) -> Call:
    """Hold calls per second of the means against each other, as the action does for pytest-benchmark's JSON."""
    return _called((1 / fmean(base)) / (1 / fmean(head)) > ALERT_RATIO)


def _asv(factor: float) -> Callable[[Sequence[float], Sequence[float]], Call]:
    """Return asv's check: the medians differ by the factor, and, unless a side has one sample only, the samples do too."""

    def judged(base: Sequence[float], head: Sequence[float]) -> Call:
        beyond = median(base) < median(head) / factor
        if not beyond or len(base) == 1 or len(head) == 1:
            return _called(beyond)
        if 1 / comb(len(base) + len(head), min(len(base), len(head))) >= ASV_P:
            # asv then compares two intervals from a posterior distribution; with so few samples that is another rule.
            return Call.UNKNOWN
        return _called(mann_whitney_p(base, head) < ASV_P)

    return judged


def mann_whitney_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Return asv's two-sided p: exact up to 20 samples a side, else normal without correction; ties broken against significance.

    asv 0.6, _stats.mann_whitney_u (after Mann and Whitney 1947).
    """
    left, right = np.asarray(one)[:, None], np.asarray(other)[None, :]
    wins, ties = int((left > right).sum()), int((left == right).sum())
    pairs = len(one) * len(other)
    half = pairs // 2
    # With ties the true count is anywhere from wins to wins + ties; the one nearest to an even score counts.
    first, last = min(wins, pairs - wins), min(wins + ties, pairs - wins - ties)
    score = half if wins <= half <= wins + ties else max(first, last)
    if max(len(one), len(other)) > ASV_EXACT:
        z = (score - pairs / 2) / sqrt(pairs * (len(one) + len(other) + 1) / 12)
        return erfc(-z / sqrt(2))
    counts = _orderings(len(one), len(other))
    total = sum(counts)
    lower = sum(counts[: score + 1])
    upper = total - sum(counts[: max(half, pairs - score - 1) + 1])
    return (lower + upper) / total


@lru_cache(maxsize=64)
def _orderings(one: int, other: int) -> tuple[int, ...]:
    """Return how many of the orderings of two samples have each Mann-Whitney score: coefficients of a Gaussian binomial."""
    counts = [1] + [0] * (one * other)
    for factor in range(1, one + 1):
        for index in range(one * other, other + factor - 1, -1):
            counts[index] -= counts[index - other - factor]
        for index in range(factor, one * other + 1):
            counts[index] += counts[index - factor]
    return tuple(counts)


T_STEPS = (30, 40, 50, 60, 80, 100)
"""Where pyperf's table of Student's t at 95 % goes on after 30 degrees of freedom; from 200 it takes the normal distribution's."""


def _pyperf_t(freedom: int) -> float:
    if freedom >= 200:
        return 1.960
    step = freedom if freedom <= T_STEPS[0] else max(step for step in T_STEPS if step <= freedom)
    return round(float(stdtrit(step, 0.975)), 3)


def _pyperf(base: Sequence[float], head: Sequence[float]) -> Call:
    """Call head slower when its mean is larger and the difference significant.

    pyperf's test needs as many values on both sides and some spread; where it fails, or there is one value a side, pyperf
    says significant.
    """
    slower = fmean(head) > fmean(base)
    count = len(base)
    if count != len(head) or count == 1:
        return _called(slower)
    freedom = 2 * count - 2
    squares = sum((value - fmean(base)) ** 2 for value in base) + sum((value - fmean(head)) ** 2 for value in head)
    if squares == 0:
        return _called(slower)
    t = (fmean(head) - fmean(base)) / sqrt(squares / freedom / count * 2)
    return _called(t >= _pyperf_t(freedom))


_JUDGES: Mapping[Rule, Callable[[Sequence[float], Sequence[float]], Call]] = {
    Rule.PYTEST_BENCHMARK_MIN: _percentage(min),
    Rule.PYTEST_BENCHMARK_MEDIAN: _percentage(median),
    Rule.PYTEST_BENCHMARK_MEAN: _percentage(fmean),
    Rule.ASV: _asv(1.1),
    Rule.ASV_TEST: _asv(1.0),
    Rule.GITHUB_ACTION_BENCHMARK: _alert,
    Rule.PYPERF: _pyperf,
}
