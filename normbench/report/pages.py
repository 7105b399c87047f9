"""The op tier's figures' pages: which scopes share a figure, what it is called, and its file's name. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .tables import ScopeResults, describe_conditions, on_machine

__all__ = ["Page", "pages"]


class Page(msgspec.Struct, frozen=True):
    """Hold the scopes that one figure shows, a panel each: they differ in norm and pass only."""

    title: str
    slug: str
    grids: tuple[ScopeResults, ...]

    @property
    def providers(self) -> list[str]:
        return list(dict.fromkeys(name for grid in self.grids for name in grid.providers))

    @property
    def is_timed(self) -> bool:
        return any(one.time for grid in self.grids for one in grid.cells.values())


def pages(grids: Sequence[ScopeResults]) -> list[Page]:
    """Return the pages, each with a title that names its scope and a slug that is unique and fit for a file's name."""
    grouped: dict[tuple[str, str], list[ScopeResults]] = {}
    for grid in grids:
        scope = grid.scope
        options = f" ({scope.options})" if scope.options else ""
        title = f"{scope.tier.value} tier, {scope.dtype.value}{options}; {describe_conditions(scope.conditions)}{on_machine(scope.machine)}"
        words = [scope.machine, scope.tier.value, scope.dtype.value, *scope.options.split(", "), scope.conditions.id.replace("/", "-")]
        slug = "-".join(word.replace(":", "") for word in words if word)
        grouped.setdefault((title, slug), []).append(grid)
    return [Page(title, slug, tuple(members)) for (title, slug), members in grouped.items()]
