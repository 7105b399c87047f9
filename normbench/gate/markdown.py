"""An outcome as a table: Markdown that fits a pull-request comment, and the same rows for a terminal. Pure."""

from __future__ import annotations

from ..report.units import DASH
from .decide import Verdict
from .outcome import CaseResult, Outcome

__all__ = ["COLUMNS", "markdown", "rows"]

COLUMNS = ("case", "head / base", "95 % interval", "verdict", "smallest change found", "blocks")
_FIRST = (
    Verdict.WRONG,
    Verdict.FAILED,
    Verdict.REGRESSION,
    Verdict.MISSING,
    Verdict.NOT_COMPARABLE,
    Verdict.UNDECIDED,
    Verdict.NOT_GATEABLE,
    Verdict.IMPROVEMENT,
    Verdict.NEW,
    Verdict.PASS,
)
"""The order of rows: what asks for something to be done stands on top."""


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return a row of text for each case, the most urgent verdict first, then the controls."""
    ordered = sorted(outcome.cases, key=lambda one: _FIRST.index(one.decision.verdict))
    return [_row(one.case, one) for one in ordered] + [_row(f"control {one.case.partition('@')[0]}", one) for one in outcome.controls]


def _row(name: str, result: CaseResult) -> tuple[str, ...]:
    decision = result.decision
    ratio = DASH if decision.ratio is None else f"{decision.ratio:.3f}"
    ends = DASH if decision.low is None or decision.high is None else f"{decision.low:.3f}{DASH}{decision.high:.3f}"
    seen = DASH if decision.smallest_detectable is None else f"{100 * decision.smallest_detectable:.1f} %"
    return name, ratio, ends, decision.verdict.value, seen, str(decision.blocks) if decision.blocks else DASH


def markdown(outcome: Outcome, *, base: str, head: str, machine: str) -> str:
    """Return the outcome as Markdown: one sentence, what was compared and where, the table, and why cases did not pass."""
    lines = [f"**{outcome.sentence}**", "", f"head {head} against base {base}, on {machine}.", ""]
    lines += [f"| {' | '.join(COLUMNS)} |", "| --- | --: | --: | --- | --: | --: |"]
    lines += [f"| {' | '.join(row)} |" for row in rows(outcome)]
    reasons = [f"- {one.case}: {one.decision.reason}" for one in outcome.cases if not one.decision.verdict.is_compared]
    lines += [""] * bool(reasons) + reasons
    lines += ["", *(f"- {note}" for note in outcome.notes)] if outcome.notes else []
    policy = outcome.policy
    lines += [
        "",
        f"A case is called slower beyond {100 * policy.margin:g} %; a whole run of unchanged code calls one with a probability below "
        f"{100 * policy.error_rate:g} %. Above 1 is slower. Both versions took turns call by call on the same tensors.",
    ]
    return "\n".join(lines) + "\n"
