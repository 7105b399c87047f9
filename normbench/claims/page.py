"""All claims on one Markdown page: counts, then a table per tier, then each claim in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..published import Claim, sources
from ..quantities.units import DASH
from ..storage import files
from ..text.markdown import escape, table
from .evaluators import Evaluation
from .figure import draw
from .verdict import Measured, Verdict

__all__ = ["NO_VERDICT", "counts", "markdown", "published_text", "write_page"]

NO_VERDICT = "no verdict"
_TIERS = ("op", "model", "throughput", "quality", "accounting")
_PICTURE = "claims.png"
_COLUMNS = ("claim", "published", "found here", "verdict")


def counts(evaluations: Sequence[Evaluation]) -> dict[str, int]:
    """Return the number of claims of each verdict that occurs, and of those without one."""
    found = Counter(one.ruling.verdict.value if one.ruling.verdict else NO_VERDICT for one in evaluations)
    return {word: found[word] for word in [*(verdict.value for verdict in Verdict), NO_VERDICT] if found[word]}


def published_text(claim: Claim) -> str:
    """Return the published figures, e.g. `layer_norm 2048, rms_norm 1024`; those of one name alone without it."""
    unit = f" {claim.unit}" if claim.unit else ""
    parts = [f"{value:g}" if isinstance(value, float | int) else value for value in claim.published.values()]
    if set(claim.published) == {"least", "most"}:
        return f"{parts[0]} to {parts[1]}{unit}"
    if len(parts) == 1:
        return parts[0] + (unit if isinstance(next(iter(claim.published.values())), float | int) else "")
    return ", ".join(f"{name} {part}" for name, part in zip(claim.published, parts, strict=True))


def _found_text(one: Evaluation) -> str:
    if one.measured is None:
        return DASH
    judged = [name for name in one.measured.values if name in one.claim.bands() or name in one.claim.published] or list(one.measured.values)
    return ", ".join(f"{name} {one.measured.values[name].text}" for name in judged)


def markdown(evaluations: Sequence[Evaluation], *, command: str, machine: str, has_picture: bool) -> str:
    """Return the page."""
    found = counts(evaluations)
    lines = [
        "# Published claims, held against what is found here",
        "",
        f"**{len(evaluations)} claims: {', '.join(f'{count} {word}' for word, count in found.items())}.**",
        "",
        f"On {escape(machine)}; made by `{command}`. Figures come with 95 % intervals, over processes for times and "
        "over seeds for trainings. "
        "exact and wrong: deterministic figures. bounded out: impossible here, by the bound that is given. other scope: the claim's own "
        "hardware, framework or data are not here; what was found nearby stands beside it. no verdict: not evaluated "
        "yet, or too unsure to tell, with "
        "the reason. Savings are of time, 1 - "
        "t_rmsnorm / t_layernorm, "
        "unless a claim says otherwise.",
        "",
    ]
    if has_picture:
        lines += [f"![Published against found here]({_PICTURE})", ""]
    for tier in _TIERS:
        members = [one for one in evaluations if one.claim.tier == tier]
        if members:
            lines += [f"## {tier}", "", *table(_COLUMNS, map(_row, members), align="l", limit=300), ""]
    lines += ["## Each claim", ""]
    for one in evaluations:
        lines += [*_in_full(one), ""]
    lines += ["## Sources", ""]
    lines += [f"- **{name}**: {escape(source.title)}, {source.published}, {source.url}" for name, source in sources().items()]
    return "\n".join(lines) + "\n"


def _row(one: Evaluation) -> tuple[str, ...]:
    return one.claim.id, published_text(one.claim), _found_text(one), one.ruling.verdict.value if one.ruling.verdict else NO_VERDICT


def _in_full(one: Evaluation) -> list[str]:
    claim, ruling = one.claim, one.ruling
    lines = [
        f"### {claim.id}",
        "",
        f"{escape(claim.statement)} ({claim.source} {escape(claim.place)}; {claim.tier} tier, {claim.kind})",
        "",
        f"- scope: {escape(claim.scope, 600)}",
        f"- published: {escape(published_text(claim), 600)}",
    ]
    if one.measured is not None:
        lines.append(f"- found here: {escape(_measured_text(one.measured), 2000)}")
    if claim.differs:
        lines.append(f"- what differs: {escape(claim.differs, 600)}")
    if one.measured is not None:
        lines += [f"- bound: {escape(bound.text, 600)}" for bound in one.measured.bounds]
    verdict = ruling.verdict.value if ruling.verdict else NO_VERDICT
    lines.append(f"- **{verdict}**: {escape(ruling.reason, 2000)}")
    if claim.remark:
        lines.append(f"- remark: {escape(claim.remark, 600)}")
    return lines


def _measured_text(measured: Measured) -> str:
    figures = [f"{name} {value.text}" + (f" ({value.note})" if value.note else "") for name, value in measured.values.items()]
    return f"{', '.join(figures)}; {measured.where}"


def write_page(evaluations: Sequence[Evaluation], path: Path, *, command: str, machine: str) -> Path:
    """Write the page and its picture into a folder and return the page's path. Raises NormbenchError where it cannot be written."""
    picture = draw(evaluations)
    text = markdown(evaluations, command=command, machine=machine, has_picture=picture is not None)
    return files.write_page(path, "claims.md", text, {_PICTURE: picture})
