"""What a study found, as sentences, tables and panels of lines, before it is Markdown or a picture. Pure."""

from __future__ import annotations

import msgspec

__all__ = ["Findings", "Line", "Panel", "Point", "Table"]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a table of text: a title, the columns, and rows as wide as they are."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Point(msgspec.Struct, frozen=True):
    """Hold one point of a line, and the bounds of its interval if there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a named line. `is_published` marks what a source printed, which is drawn without a line and in grey."""

    name: str
    points: tuple[Point, ...]
    is_published: bool = False


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the lines of one pair of axes. Points that a logarithmic axis has no place for are left out, and counted in the legend."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a study's answer: what was done, sentences (the most important first), tables and panels."""

    method: str
    sentences: tuple[str, ...]
    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
