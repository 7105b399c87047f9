"""A sweep as a Markdown page with a picture beside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..quantities.units import count, join_words, number
from ..storage import files
from ..text.markdown import escape, table
from .entry import Entry
from .figure import draw
from .journal import Header
from .summary import CompanySummary, summarise
from .table import ARM_COLUMNS, BATCH_COLUMNS, SIDE_COLUMNS, arm_rows, batch_rows, reference_of, side_rows

__all__ = ["markdown", "write_page"]

_TITLE = "Largest batch that fits, and tokens per second"
_PICTURE = "sweep.png"
_TEXT = 1000
_table = partial(table, align="l", limit=_TEXT)


def markdown(header: Header, companies: Sequence[CompanySummary], *, has_picture: bool) -> str:
    """Return the page: what held, the tables of each company, how it was found, and the command that gives it again."""
    lines = [f"# {_TITLE}", "", f"Limit: {escape(header.limit.words, _TEXT)}.", ""]
    lines += [f"![Tokens per second against the batch, by norm and provider]({_PICTURE})" if has_picture else "Nothing was timed.", ""]
    for company in companies:
        lines += [f"## {escape(company.title)}", "", *_table(ARM_COLUMNS, arm_rows(company)), ""]
        lines += [*_side_by_side(company), ""]
    lines += ["## How", "", *(f"- {escape(sentence, _TEXT)}" for sentence in _method(header)), ""]
    for company in companies:
        lines += [f"## Every batch tried: {escape(company.title)}", "", *_table(BATCH_COLUMNS, batch_rows(company)), ""]
    question = header.question
    threads = f", {count(question.threads, 'thread')}" if question.device == "cpu" else ""
    lines += [f"torch {header.torch}; {escape(header.machine)}, {question.device}{threads}. Made by `{shlex.join(header.command)}`.", ""]
    return "\n".join(lines)


def _side_by_side(company: CompanySummary) -> list[str]:
    found = company.side_by_side
    if found is None:
        return ["Nothing was run side by side: that takes two arms that fit, and a sweep that came to its end."]
    smaller = f" They did not fit together at {join_words(map(str, found.tried))}." if found.tried else ""
    if found.reason is not None:
        return [f"Side by side at batch {found.batch} no arm was timed: {escape(found.reason, _TEXT)}.{smaller}"]
    introduction = (
        f"Side by side in the same processes at batch {found.batch}, which each of them fits by itself, with 95 % intervals, "
        f"compared with {reference_of(found)}."
    )
    return [escape(introduction, _TEXT) + smaller, "", *_table(SIDE_COLUMNS, side_rows(company))]


def _method(header: Header) -> list[str]:
    question = header.question
    plan = question.plan
    within = (
        f"to {number(question.resolution)} of the largest batch, exactly below {int(2 / question.resolution)}"
        if question.resolution > 0
        else "exactly"
    )
    counted = (
        "what the process touched on top of what it began with, the allocator's waste included"
        if question.device == "cpu"
        else "the most that PyTorch's caching allocator gave out at a time"
    )
    return [
        f"Every arm was first checked against float64 at batch {question.start}; one that is wrong is not swept.",
        f"Batches double from {question.start} until one does not fit or {question.most} is reached; then halves of what lies between the "
        f"largest that fits and the smallest that does not are tried, {within}.",
        f"Each arm runs by itself: a process holds one network, its batch and, in training, its optimiser. A batch fits when it did in "
        f"every process, {plan.floor_blocks} to {plan.max_blocks} of them; a decode writes all of its positions in the first.",
        "Tokens per second by itself come from processes that follow each other, a batch of each arm in turn; intervals are over those "
        "processes (95 %). Arms are compared side by side only, in processes in which they take turns.",
        f"Peak memory is {counted}.",
        f"{number(question.budget_s)} s of calls are spent on an arm at a batch, more where {plan.floor_blocks} processes take longer.",
    ]


def write_page(header: Header, entries: Sequence[Entry], path: Path) -> Path:
    """Write the page and its picture into a folder and return the page's path. Raises NormbenchError where it cannot be written."""
    companies = summarise(header.question, entries)
    picture = draw(_TITLE, companies)
    text = markdown(header, companies, has_picture=picture is not None)
    return files.write_page(path, "sweep.md", text, {_PICTURE: picture})
