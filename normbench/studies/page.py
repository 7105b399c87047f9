"""A study's findings as a Markdown page with a picture beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..storage import files
from ..text.markdown import escape, table
from .figure import draw
from .findings import Findings
from .observation import Observation
from .study import Study

__all__ = ["markdown", "write_page"]


def markdown(study: Study, findings: Findings, seeds: Sequence[int], *, command: str, machine: str, torch: str) -> str:
    """Return the page: what was found, how, tables, and the command that gives it again."""
    lines = [f"# {study.name}: {study.summary}", ""]
    lines += [f"- {escape(sentence, 1000)}" for sentence in findings.sentences]
    lines += ["", f"How: {escape(findings.method, 2000)}", ""]
    lines += [f"![{study.summary}]({study.name}.png)", ""]
    for one in findings.tables:
        lines += [f"## {escape(one.title)}", "", *table(one.columns, one.rows), ""]
    count = f"{len(seeds)} seeds ({min(seeds)} to {max(seeds)})" if len(seeds) > 1 else f"one seed ({seeds[0]}), so no interval"
    lines += [f"{count[0].upper()}{count[1:]}; torch {torch}; {escape(machine)}, each trial on one thread. Made by `{command}`.", ""]
    return "\n".join(lines)


def write_page(
    study: Study, findings: Findings, observations: Sequence[Observation], path: Path, *, command: str, machine: str, torch: str
) -> Path:
    """Write the page and its picture into a folder and return the page's path. Raises NormbenchError where it cannot be written."""
    seeds = sorted({one.seed for one in observations})
    text = markdown(study, findings, seeds, command=command, machine=machine, torch=torch)
    picture = draw(f"{study.name}: {study.summary}", findings.panels)
    return files.write_page(path, f"{study.name}.md", text, {f"{study.name}.png": picture})
