"""A study's findings as a Markdown page with a picture beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..files import explained, write_atomically
from ..units import escape
from .figure import draw
from .findings import Findings, Table
from .observation import Observation
from .study import Study

__all__ = ["markdown", "write_page"]


def markdown(study: Study, findings: Findings, seeds: Sequence[int], *, command: str, machine: str, torch: str) -> str:
    """Return the page: what was found, how, tables, and the command that gives it again."""
    lines = [f"# {study.name}: {study.summary}", ""]
    lines += [f"- {escape(sentence, 1000)}" for sentence in findings.sentences]
    lines += ["", f"How: {escape(findings.method, 2000)}", ""]
    lines += [f"![{study.summary}]({study.name}.png)", ""]
    for table in findings.tables:
        lines += [f"## {escape(table.title)}", "", *_table(table), ""]
    count = f"{len(seeds)} seeds ({min(seeds)} to {max(seeds)})" if len(seeds) > 1 else f"one seed ({seeds[0]}), so no interval"
    lines += [f"{count[0].upper()}{count[1:]}; torch {torch}; {escape(machine)}, each trial on one thread. Made by `{command}`.", ""]
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    rows = [table.columns, ("---", *["--:"] * (len(table.columns) - 1)), *(tuple(escape(cell) for cell in row) for row in table.rows)]
    return [f"| {' | '.join(row)} |" for row in rows]


def write_page(
    study: Study, findings: Findings, observations: Sequence[Observation], path: Path, *, command: str, machine: str, torch: str
) -> Path:
    """Write the page and its picture into a folder and return the page's path. Raises NormbenchError where it cannot be written."""
    seeds = sorted({one.seed for one in observations})
    text = markdown(study, findings, seeds, command=command, machine=machine, torch=torch)
    page = path / f"{study.name}.md"
    with explained(f"cannot write the page of {study.name} to {path}"):
        path.mkdir(parents=True, exist_ok=True)
        write_atomically(path / f"{study.name}.png", draw(f"{study.name}: {study.summary}", findings.panels))
        write_atomically(page, text.encode())
    return page
