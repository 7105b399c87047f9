"""An outcome as a table: Markdown that fits a pull-request comment, and the same rows for a terminal. Pure."""

from __future__ import annotations

from ..quantities.units import DASH, percent, percent_given
from ..text.markdown import escape, table
from .decide import Verdict
from .outcome import CaseResult, Outcome

__all__ = ["COLUMNS", "INSTRUCTIONS", "columns", "markdown", "reasons_of", "rows"]

INSTRUCTIONS = "instructions, head / base (base)"
"""The column that is there when they were counted."""

_TEXT = 2000
"""Characters of a sentence, which may hold the text of an error."""

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


def columns(outcome: Outcome) -> tuple[str, ...]:
    """Return the names of the columns that the rows have."""
    return (*COLUMNS, INSTRUCTIONS) if _has_instructions(outcome) else COLUMNS


def _has_instructions(outcome: Outcome) -> bool:
    return any(one.instructions is not None for one in outcome.cases)


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return a row of text for each case, the most urgent verdict first, then the controls."""
    ordered = sorted(outcome.cases, key=lambda one: _FIRST.index(one.decision.verdict))
    named = [(one.case, one) for one in ordered] + [(f"control {one.case.partition('@')[0]}", one) for one in outcome.controls]
    counted = _has_instructions(outcome)
    return [(*_row(name, one), _instructions(one)) if counted else _row(name, one) for name, one in named]


def _row(name: str, result: CaseResult) -> tuple[str, ...]:
    decision = result.decision
    ratio = DASH if decision.ratio is None else f"{decision.ratio:.3f}"
    ends = DASH if decision.low is None or decision.high is None else f"{decision.low:.3f}{DASH}{decision.high:.3f}"
    seen = DASH if decision.smallest_detectable is None else percent(decision.smallest_detectable)
    return name, ratio, ends, decision.verdict.value, seen, str(decision.blocks) if decision.blocks else DASH


def _instructions(result: CaseResult) -> str:
    """Return head's over base's and, in brackets, base's: `1.050 (1.23e+06)`."""
    counts = result.instructions
    return DASH if counts is None else f"{counts.head / counts.base:.3f} ({counts.base:.3g})"


def reasons_of(outcome: Outcome) -> list[str]:
    """Return a clause for each case that needs one: why it was not compared or, where it got worse, how the code of the arms differs."""
    found = []
    for one in outcome.cases:
        if not one.decision.verdict.is_compared:
            found.append(f"{one.case}: {one.decision.reason}")
        elif one.decision.verdict is Verdict.REGRESSION and one.code is not None:
            found.append(f"{one.case}: {one.code.text}")
    return found


def markdown(outcome: Outcome, *, base: str, head: str, machine: str) -> str:
    """Return the outcome as Markdown: one sentence, what was compared and where, the table, and what there is to know of its rows."""
    lines = [f"**{escape(outcome.sentence, _TEXT)}**", "", f"{escape(f'head {head} against base {base}, on {machine}', _TEXT)}.", ""]
    lines += table(columns(outcome), rows(outcome), align="lrrlr")
    for sentences in (reasons_of(outcome), outcome.notes):
        lines += [""] * bool(sentences) + [f"- {escape(sentence, _TEXT)}" for sentence in sentences]
    policy = outcome.policy
    lines += [
        "",
        f"A case is called slower beyond {percent_given(policy.margin)}; a whole run of unchanged code calls one with a probability "
        f"below {percent_given(policy.error_rate)}. Above 1 is slower.",
    ]
    return "\n".join(lines) + "\n"
