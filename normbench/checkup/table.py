"""A check-up in the terminal: how exact everybody is, what comes of adversarial tensors, and what is wrong. Printing is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from ..cases.adversary import Layout, Values
from ..cases.case import DType
from ..quantities.units import DASH, TIMES
from ..records.record import Status
from ..screen.terminal import FittingTable
from .verdict import Figures, Verdict, figures, norm_label, worst_entry

__all__ = ["failure_lines", "tables"]

_K = TypeVar("_K")

_COLUMNS = {"y": ("y",), "dx": ("dx", "dresidual"), "dweight": ("dweight",), "dbias": ("dbias",)}
"""Columns of the table of errors and the tensors in each. x + residual has none: it must be right to the bit."""

REASON_CHARACTERS = 300

_ERRORS = (
    "Errors on normal values: the largest in ulps of the output, and as a norm relative to that of the exact values. "
    "limit: the worst element in parts of what rounding explains, past 1 is wrong"
)
_ADVERSARIES = "Adversarial tensors: verdicts, and the worst element in parts of what rounding explains"


def tables(verdicts: Sequence[Verdict]) -> RenderableType:
    """Return the table of errors, the table of adversaries, and what is neither right nor wrong, as one renderable."""
    parts: list[RenderableType] = []
    if any(one.accuracy and one.trial.values is Values.NORMAL for one in verdicts):
        parts += [Text(_ERRORS, style="bold"), _errors(verdicts), Text()]
    if any(one.trial.label for one in verdicts):
        parts += [Text(_ADVERSARIES, style="bold"), _adversaries(verdicts), Text()]
    parts += [Text(line, style="yellow") for line in [*_told_only(verdicts), *_not_computed(verdicts), *_not_repeatable(verdicts)]]
    return Group(*parts)


def failure_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each failure: who, with what, and what is wrong."""
    return [
        f"{one.status.value} {one.provider} {one.label}: {(one.reason or '')[:REASON_CHARACTERS]}" for one in verdicts if one.is_failure
    ]


def _by(verdicts: Sequence[Verdict], key: Callable[[Verdict], _K]) -> dict[_K, list[Verdict]]:
    found: dict[_K, list[Verdict]] = {}
    for one in verdicts:
        found.setdefault(key(one), []).append(one)
    return found


def _errors(verdicts: Sequence[Verdict]) -> FittingTable:
    table = FittingTable(box=None, pad_edge=False)
    for name in ("provider", "norm", "dtype"):
        table.add_column(name, no_wrap=True)
    table.add_column("cases", justify="right")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("limit", justify="right", no_wrap=True)
    table.add_column("worst case", overflow="fold")
    normal = [one for one in verdicts if one.accuracy and one.trial.values is Values.NORMAL]
    providers = list(dict.fromkeys(one.provider for one in verdicts))
    ordered = sorted(normal, key=lambda one: (providers.index(one.provider), norm_label(one.case), list(DType).index(one.case.dtype)))
    for (provider, norm, dtype), some in _by(ordered, lambda one: (one.provider, norm_label(one.case), one.case.dtype.value)).items():
        worst = max(some, key=_error)
        entry = worst_entry(worst)
        table.add_row(
            provider,
            norm,
            dtype,
            str(len(some)),
            *(_cell(figures(some, tensors)) for tensors in _COLUMNS.values()),
            Text(f"{_error(worst):.2g}", style="bold red" if any(one.is_failure for one in some) else ""),
            DASH if entry is None else f"{entry.tensor} of {worst.label}",
        )
    return table


def _error(verdict: Verdict) -> float:
    entry = worst_entry(verdict)
    return 0.0 if entry is None or entry.error is None else entry.error


def _cell(found: Figures) -> str:
    if found.ulps is None:
        return DASH
    return f"{found.ulps:.2g}" + ("" if found.relative is None else f" {found.relative:.0e}")


def _adversaries(verdicts: Sequence[Verdict]) -> FittingTable:
    table = FittingTable(box=None, pad_edge=False)
    table.add_column("tensors", no_wrap=True)
    providers = list(dict.fromkeys(one.provider for one in verdicts))
    for name in providers:
        table.add_column(Text(name), justify="right", no_wrap=True)
    # A layout is told of normal values alone: what values do is in their own rows.
    rows = [(f"values {values.value}", [one for one in verdicts if one.trial.values is values]) for values in Values]
    normal = [one for one in verdicts if one.trial.values is Values.NORMAL]
    rows += [(f"layout {layout.value}", [one for one in normal if one.trial.layout is layout]) for layout in Layout]
    for name, some in rows:
        if some:
            by_provider = _by(some, lambda one: one.provider)
            table.add_row(name, *(_verdicts_cell(by_provider.get(provider, [])) for provider in providers))
    return table


def _verdicts_cell(some: Sequence[Verdict]) -> Text:
    run = [one for one in some if one.status not in (Status.UNSUPPORTED, Status.SKIPPED)]
    if not run:
        return Text(DASH, style="dim")
    worst = max(_error(one) for one in run)
    failed, told = sum(one.is_failure for one in run), sum(one.is_told_only for one in run)
    if failed:
        return Text(f"{failed} of {len(run)} wrong {worst:.3g}{TIMES}", style="bold red")
    if told:
        return Text(f"{told} of {len(run)} past float32", style="yellow")
    return Text(f"{len(run)} right {worst:.2g}{TIMES}")


def _told_only(verdicts: Sequence[Verdict]) -> list[str]:
    lines = []
    for provider, some in _by([one for one in verdicts if one.is_told_only], lambda one: one.provider).items():
        example = some[0]
        lines.append(
            f"past float32, not judged: {provider} in {len(some)} cases whose squares float32 cannot hold, such as {example.label}: "
            f"{(example.reason or '').partition(';')[0]}"
        )
    return lines


def _not_computed(verdicts: Sequence[Verdict]) -> list[str]:
    idle = [one for one in verdicts if one.status in (Status.UNSUPPORTED, Status.SKIPPED)]
    grouped = _by(idle, lambda one: (one.status.value, one.provider, one.reason or ""))
    return [f"{status} {provider}, {len(some)} of its trials: {reason}" for (status, provider, reason), some in grouped.items()]


def _not_repeatable(verdicts: Sequence[Verdict]) -> list[str]:
    found = _by([one for one in verdicts if one.is_repeatable is False], lambda one: one.provider)
    return [
        f"not bit-equal on a second call: {provider} in {len(some)} trials, such as {some[0].label}" for provider, some in found.items()
    ]
