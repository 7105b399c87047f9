"""From the verdicts of all cases and controls to one outcome: a sentence, an exit code, and JSON. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum, StrEnum

import msgspec

from ..quantities.units import count, percent, percent_given, some
from .decide import Decision, Verdict
from .policy import Policy

__all__ = ["CaseResult", "Code", "ExitCode", "Instructions", "Outcome", "RunEnd", "Sameness", "conclude", "to_json"]

SCHEMA_VERSION = 1

MOVED = (Verdict.REGRESSION, Verdict.IMPROVEMENT)
SHOWN = 3
"""How many cases a sentence names before it says "and N more"."""


class ExitCode(IntEnum):
    """Say how the process ends. `usage` is for what cannot be run at all, and never an outcome."""

    PASS = 0
    REGRESSION = 1
    USAGE = 2
    INVALID = 3
    MISSING = 4


class RunEnd(StrEnum):
    """Say whether the run got to its end."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class Sameness(StrEnum):
    """Say by what the two arms of a case are known to be the same program."""

    FILES = "files"
    MACHINE_CODE = "machine code"


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how the code of the two arms differs, in a clause; `same` is None where it does, or where nobody can tell."""

    text: str
    same: Sameness | None = None


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    """Hold how many instructions a call takes outside the kernel, in either arm."""

    base: float
    head: float


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hold one case, or one control, what was decided, and what else is known of its arms and decides nothing."""

    case: str
    decision: Decision
    code: Code | None = None
    instructions: Instructions | None = None

    @property
    def is_same_code(self) -> bool:
        """Say whether both arms are known to be the same program, so that no change of it can have moved the case."""
        return self.code is not None and self.code.same is not None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what a whole run says: one sentence a person can act on, the exit code, and all that it rests on."""

    sentence: str
    exit_code: ExitCode
    end: RunEnd
    policy: Policy
    cases: tuple[CaseResult, ...]
    controls: tuple[CaseResult, ...]
    allowed_missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def having(self, *verdicts: Verdict) -> tuple[CaseResult, ...]:
        """Return the cases with one of these verdicts, in order."""
        return tuple(one for one in self.cases if one.decision.verdict in verdicts)


def conclude(
    policy: Policy,
    cases: Sequence[CaseResult],
    controls: Sequence[CaseResult] = (),
    *,
    end: RunEnd = RunEnd.COMPLETE,
    allowed_missing: Collection[str] = (),
    notes: Sequence[str] = (),
) -> Outcome:
    """Return the outcome of a run.

    What fails comes first, and the first that holds decides: head is wrong or does not run (1); a control moved, so the machine and
    not the code changed (3); a regression (1); a case is missing in head and not allowed to be (4); the run was interrupted or left a
    case undecided (3); a case could not be compared (3); nothing was compared (3). Only then is it a pass (0). New
    cases and those that are not gateable are named and fail nothing, as long as something was compared.
    """
    draft = Outcome(
        sentence="",
        exit_code=ExitCode.PASS,
        end=end,
        policy=policy,
        cases=tuple(cases),
        controls=tuple(controls),
        allowed_missing=tuple(sorted(allowed_missing)),
        notes=(*notes, *_of_the_same_code(cases)),
    )
    exit_code, said = _judged(draft)
    return msgspec.structs.replace(draft, exit_code=exit_code, sentence=" ".join((said, *_asides(draft))))


def to_json(outcome: Outcome) -> bytes:
    """Return the outcome as strict JSON (no NaN: what was not computed is null), indented, with a last line end."""
    return msgspec.json.format(msgspec.json.encode(outcome), indent=2) + b"\n"


def _judged(outcome: Outcome) -> tuple[ExitCode, str]:
    broken = outcome.having(Verdict.WRONG, Verdict.FAILED)
    moved = [one for one in outcome.controls if one.decision.verdict in MOVED]
    unheld = [one for one in outcome.controls if not one.decision.verdict.is_compared and one.decision.verdict is not Verdict.NOT_GATEABLE]
    slower = outcome.having(Verdict.REGRESSION)
    missing = [one for one in outcome.having(Verdict.MISSING) if one.case not in outcome.allowed_missing]
    undecided = outcome.having(Verdict.UNDECIDED)
    odd = outcome.having(Verdict.NOT_COMPARABLE)
    compared = [one for one in outcome.cases if one.decision.verdict.is_compared]
    if broken:
        return ExitCode.REGRESSION, f"Fail: {_count(broken)} in head {_verb(broken, 'is', 'are')} wrong or did not run: {_names(broken)}."
    if moved:
        return ExitCode.INVALID, (
            f"Invalid: {_count(moved, 'control')} that neither side can change moved ({_names(moved)}), "
            "so the machine changed under the run; run it again."
        )
    if slower:
        worst = max(slower, key=_worsening)
        return ExitCode.REGRESSION, f"Regression: {_count(slower)} got worse, most of all {_named(worst)}{_others(slower, worst)}."
    if missing:
        return ExitCode.MISSING, (
            f"Missing: base has {_count(missing)} that head has not: {_names(missing)}; put them back or allow them to be missing."
        )
    if outcome.end is RunEnd.INTERRUPTED or undecided:
        return ExitCode.INVALID, f"Invalid: the run ended before {_count(undecided) if undecided else 'it was complete'}{_left(undecided)}."
    if odd:
        return ExitCode.INVALID, f"Invalid: {_count(odd)} could not be compared: {_names(odd)} ({odd[0].decision.reason})."
    if not compared:
        return ExitCode.INVALID, "Invalid: nothing was compared, which is no pass."
    if unheld:
        return ExitCode.INVALID, f"Invalid: {_count(unheld, 'control')} could not be compared with itself: {_names(unheld)}."
    margin = percent_given(outcome.policy.margin)
    return ExitCode.PASS, f"Pass: none of {_count(compared)} got worse by more than {margin}{_seen(compared)}."


def _asides(outcome: Outcome) -> list[str]:
    """Return what else there is to know, a sentence each."""
    found = []
    if blameless := [one for one in outcome.having(Verdict.REGRESSION) if one.is_same_code]:
        found.append(
            f"The code of {_names(blameless)} is the same in both arms, so the cause is elsewhere: a shared library or the machine."
        )
    if better := outcome.having(Verdict.IMPROVEMENT):
        best = min(better, key=_worsening)
        found.append(f"{_count(better)} got better, most of all {_named(best)}{_others(better, best)}.")
    if blind := outcome.having(Verdict.NOT_GATEABLE):
        found.append(f"{_count(blind)} {_verb(blind, 'was', 'were')} too noisy to be gated: {_names(blind)}.")
    if loud := [one for one in outcome.controls if one.decision.verdict is Verdict.NOT_GATEABLE]:
        found.append(f"{_count(loud, 'control')} {_verb(loud, 'was', 'were')} too noisy to vouch for the machine: {_names(loud)}.")
    if new := outcome.having(Verdict.NEW):
        found.append(f"{_count(new)} {_verb(new, 'is', 'are')} new in head and had nothing to be compared with: {_names(new)}.")
    if allowed := [one for one in outcome.having(Verdict.MISSING) if one.case in outcome.allowed_missing]:
        found.append(f"{_count(allowed)} {_verb(allowed, 'is', 'are')} missing in head, as allowed: {_names(allowed)}.")
    return found


def _of_the_same_code(cases: Sequence[CaseResult]) -> list[str]:
    same = [one for one in cases if one.is_same_code]
    return [f"both arms are the same program in {len(same)} of {_count(cases)}: {_names(same)}"] if same else []


def _worsening(result: CaseResult) -> float:
    """Return how far a case is on the bad side, on the log scale, whichever way its metric is good."""
    return result.decision.worsening or 0.0


def _named(result: CaseResult) -> str:
    ratio = result.decision.ratio
    return f"{result.case} ({ratio:.3f} times base)" if ratio is not None else result.case


def _others(results: Sequence[CaseResult], first: CaseResult) -> str:
    rest = [one for one in results if one is not first]
    return f"; also {_names(rest)}" if rest else ""


def _left(undecided: Sequence[CaseResult]) -> str:
    return f" {_verb(undecided, 'was', 'were')} decided: {_names(undecided)}" if undecided else ""


def _seen(compared: Sequence[CaseResult]) -> str:
    limits = [one.decision.smallest_detectable for one in compared if one.decision.smallest_detectable is not None]
    return (
        f"; a slow-down of {percent(max(limits))} would have been found in any of them" if limits and len(limits) == len(compared) else ""
    )


def _names(results: Sequence[CaseResult]) -> str:
    return some([one.case for one in results], SHOWN)


def _count(results: Sequence[CaseResult], noun: str = "case") -> str:
    return count(len(results), noun)


def _verb(results: Sequence[CaseResult], one: str, many: str) -> str:
    return one if len(results) == 1 else many
