"""The machines of a run side by side: the same cases and providers on each, times only. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..cases.shape import shape_text
from ..quantities.units import DASH, TIME_UNITS, interval_text, time_text, time_unit
from ..text.markdown import escape
from .tables import Scope, ScopeResults, Table

__all__ = ["machine_tables"]


def machine_tables(grids: Sequence[ScopeResults]) -> list[tuple[str, Table]]:
    """Return title and table of each scope that was measured on more than one machine: shapes and providers down, machines across."""
    grouped: dict[Scope, list[ScopeResults]] = {}
    for grid in grids:
        grouped.setdefault(msgspec.structs.replace(grid.scope, machine=""), []).append(grid)
    return [(f"{scope.title}; {scope.circumstances}", _table(members)) for scope, members in grouped.items() if len(members) > 1]


def _table(grids: Sequence[ScopeResults]) -> Table:
    unit = time_unit(one.time.estimate for grid in grids for one in grid.cells.values() if one.time)
    rows = [
        [f"{shape_text(shape)}, {escape(name)}", *(_cell(grid, shape, name, unit) for grid in grids)]
        for shape, name in dict.fromkeys(key for grid in grids for key in grid.cells)
    ]
    return Table([f"shape, provider; {unit}", *(escape(grid.scope.machine or "the run's own") for grid in grids)], rows)


def _cell(grid: ScopeResults, shape: tuple[int, ...], name: str, unit: str) -> str:
    found = grid.cells.get((shape, name))
    if found is None:
        return DASH
    if found.time is None:
        return found.record.status.value
    return f"{time_text(found.time.estimate, unit)} {interval_text(found.time, TIME_UNITS[unit])}"
