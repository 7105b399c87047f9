"""From all rows of two runs to one outcome: a sentence a person can act on, an exit code, and JSON."""

from __future__ import annotations

from collections.abc import Collection
from math import log1p

import msgspec

from ..errors import UsageError
from ..gate.outcome import ExitCode
from ..quantities.units import percent_given
from ..storage.stored_run import Run
from .circumstances import Discrepancy, refuse_difference
from .difference import DETECTABLE, Verdict, cost_range
from .rows import REFERENCES, Row, TierDrift, make_rows
from .sentences import count_rows, named_worst, sentences

__all__ = ["Comparison", "Side", "compare_runs", "to_json"]

SCHEMA_VERSION = 1
NOTHING = "Nothing was measured in both runs under the same conditions."


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Name one of the two runs, and say why it is no basis for a decision; `partial` is null for a complete run."""

    id: str
    path: str
    created_at: str
    git_commit: str
    partial: str | None

    @classmethod
    def of(cls, run: Run) -> Side:
        info = run.info
        partial = None
        if not run.is_complete:
            held = info.planned - run.missing
            partial = "it is empty" if not run.records else f"it holds {held} of {info.planned} planned records and was not finished"
        return cls(id=info.id, path=str(run.path), created_at=info.created_at, git_commit=info.git_commit, partial=partial)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what two runs say together. `level` is that of a row's interval, at which all of them hold together with 95 %.

    `across` are the differences between the runs that the user allowed. `fail_on` is the share beyond which a worse row fails; null
    where nothing fails.
    """

    sentence: str
    exit_code: ExitCode
    before: Side
    after: Side
    rows: tuple[Row, ...]
    level: float
    drifts: tuple[TierDrift, ...]
    across: tuple[Discrepancy, ...] = ()
    fail_on: float | None = None
    schema_version: int = SCHEMA_VERSION

    def having(self, *verdicts: Verdict) -> tuple[Row, ...]:
        """Return the rows with one of these verdicts, in order."""
        return tuple(one for one in self.rows if one.verdict in verdicts)


def compare_runs(
    before: Run, after: Run, *, across: Collection[str] = (), reference: str | None = None, fail_on: float | None = None
) -> Comparison:
    """Return what run `after` (B) says beside run `before` (A).

    `across` names fields in which the runs may differ. `reference` names a control or a provider that took turns with the rows in both
    runs and is known to be unchanged; one of `REFERENCES` where none is given.

    The exit code is 0, whatever was found, unless `fail_on` is given. Then the first that holds decides: a run is not complete (3); a row
    is wrong or does not run any more (1), or is worse beyond `fail_on` with its whole interval (1); a row is missing (4); a row
    could not be compared (3); no row can tell (3): neither is it free of a change of that size, nor is all of its interval there.

    Raises UsageError that names the fields in which the runs differ and must not, words of `across` that are no fields, and a
    reference that a run has not.
    """
    allowed = refuse_difference(before, after, across)
    _require_reference(reference, before, after)
    table = make_rows(
        before.records,
        after.records,
        references=REFERENCES if reference is None else (reference,),
        across=across,
        detectable=DETECTABLE if fail_on is None else fail_on,
    )
    draft = Comparison(
        sentence="",
        exit_code=ExitCode.PASS,
        before=Side.of(before),
        after=Side.of(after),
        rows=table.rows,
        level=table.level,
        drifts=table.drifts,
        across=tuple(allowed),
        fail_on=fail_on,
    )
    exit_code, sentence = _read(draft)
    return msgspec.structs.replace(draft, exit_code=exit_code, sentence=sentence)


def to_json(comparison: Comparison) -> bytes:
    """Return the comparison as strict JSON (what was not computed is null), indented, with a last line end."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=2) + b"\n"


_HEADS = {
    Verdict.WRONG: "Broken",
    Verdict.SLOWER: "Slower",
    Verdict.MISSING: "Missing",
    Verdict.NOT_COMPARABLE: "Not comparable",
    Verdict.FASTER: "Faster",
    Verdict.NO_DIFFERENCE: "No change seen",
    Verdict.INCONCLUSIVE: "Inconclusive",
    Verdict.NEW: "New",
}
"""The word before the first sentence where nothing is to fail."""


def _require_reference(reference: str | None, before: Run, after: Run) -> None:
    for name, run in (("A", before), ("B", after)):
        known = dict.fromkeys(record.provider for record in run.records)
        if reference is not None and reference not in known:
            raise UsageError(f"--reference {reference!r} is not in run {name}, {run.info.id}; it has {', '.join(known) or 'no records'}")


def _read(found: Comparison) -> tuple[ExitCode, str]:
    """Return the exit code, and all there is to say: what decides first, then the rest."""
    said = sentences(found.rows)
    partial = [
        f"Run {name} is not complete ({side.partial}): it is no basis for a decision."
        for name, side in (("A", found.before), ("B", found.after))
        if side.partial
    ]
    if found.fail_on is None:
        return ExitCode.PASS, " ".join([*partial, _reported(found, said), *said.values()])
    if partial:
        return ExitCode.INVALID, " ".join([_headed("Invalid", partial[0]), *partial[1:], *said.values()])
    code, heading = _judged(found, said, found.fail_on)
    return code, " ".join([heading, *said.values()])


def _reported(found: Comparison, said: dict[Verdict, str]) -> str:
    """Take the most urgent sentence out of those and return it as the first one."""
    first = next(iter(said), None)
    if first is None:
        return _headed("Nothing compared", NOTHING)
    heading = _headed(_HEADS[first], said.pop(first))
    return heading if any(row.direct is not None for row in found.rows) else f"{heading} {NOTHING}"


def _judged(found: Comparison, said: dict[Verdict, str], fail_on: float) -> tuple[ExitCode, str]:
    """Take the sentence that decides out of those and return it as the first one, with the exit code."""
    worse = [one for one in found.having(Verdict.SLOWER) if _is_beyond(one, fail_on)]
    told = [one for one in found.rows if one.verdict.is_compared and (one.verdict is not Verdict.SLOWER or _is_within(one, fail_on))]
    beyond = f"slower than A by more than {percent_given(fail_on)}"
    if Verdict.WRONG in said:
        return ExitCode.REGRESSION, _headed("Fail", said.pop(Verdict.WRONG))
    if worse:
        return ExitCode.REGRESSION, f"Fail: B is {beyond} in {count_rows(worse)}, {named_worst(worse)}."
    if Verdict.MISSING in said:
        return ExitCode.MISSING, _headed("Fail", said.pop(Verdict.MISSING))
    if Verdict.NOT_COMPARABLE in said:
        return ExitCode.INVALID, _headed("Invalid", said.pop(Verdict.NOT_COMPARABLE))
    if not told:
        seen = [one for one in found.rows if one.direct is not None]
        unsure = f"Whether B is {beyond} cannot be told in any of {count_rows(seen)}." if seen else NOTHING
        return ExitCode.INVALID, _headed("Invalid", unsure)
    return ExitCode.PASS, f"Pass: of {count_rows(told)} that can tell, B is {beyond} in none."


def _headed(head: str, sentence: str) -> str:
    """Return a sentence after the one word that says what it means."""
    starts_with_name = sentence[:2] in ("A ", "B ")
    return f"{head}: {sentence if starts_with_name else sentence[0].lower() + sentence[1:]}"


def _is_beyond(row: Row, share: float) -> bool:
    """Say whether all of a row's intervals are on the bad side of the share."""
    ends = _range(row)
    return ends is not None and ends[0] > log1p(share)


def _is_within(row: Row, share: float) -> bool:
    """Say whether none of a row's intervals gets there."""
    ends = _range(row)
    return ends is not None and ends[1] < log1p(share)


def _range(row: Row) -> tuple[float, float] | None:
    return cost_range(row.direct, row.relative, better=row.better) if row.direct is not None else None
