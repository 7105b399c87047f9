"""The published claims as data: source, scope, figures, what counts as agreement, and what yields the figure here."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from .errors import UsageError

__all__ = ["Band", "Claim", "Source", "claim", "claims", "sources"]

Band = tuple[float, float]
"""Least and most; either may be infinite."""


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name where claims were published. `url` is empty where only a title is known."""

    title: str
    url: str
    published: str


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hold one published claim.

    `published` holds its figures, or words, by name. `accept` says for each name of what `evaluator` yields which band agrees; a name
    of `published` that is a number and has no band of its own agrees within the larger of `relative` and `absolute`. A whole interval
    inside a band of `opposite` contradicts. `needs` are parts of the published scope that must be here for a verdict on that scope itself.
    """

    id: str
    source: str
    place: str
    tier: str
    scope: str
    statement: str
    kind: str
    published: dict[str, float | str]
    evaluator: str
    options: dict[str, Any] = {}
    unit: str = ""
    relative: float = 0.0
    absolute: float = 0.0
    accept: dict[str, Band] = {}
    opposite: dict[str, Band] = {}
    needs: tuple[str, ...] = ()
    differs: str = ""
    remark: str = ""

    def number(self, name: str) -> float:
        """Return a published figure. Raises KeyError or ValueError where there is no such figure or it is a word that is no number."""
        return float(self.published[name])

    @property
    def is_tied_to_device(self) -> bool:
        """Say whether nothing near it can be measured without a device or a package that it needs."""
        return any(need.startswith(("device:", "package:")) for need in self.needs)

    def bands(self) -> dict[str, Band]:
        """Return the band of agreement of every name that is judged."""
        bands = {}
        for name, value in self.published.items():
            if isinstance(value, float | int) and name not in self.accept and (self.relative or self.absolute or self.kind == "exact"):
                half = max(self.relative * abs(value), self.absolute)
                bands[name] = (value - half, value + half)
        return bands | self.accept


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: int
    source: dict[str, Source]
    claim: tuple[Claim, ...]


@cache
def _file() -> _File:
    return msgspec.toml.decode((files(__package__) / "published.toml").read_bytes(), type=_File)


def claims() -> tuple[Claim, ...]:
    """Return all claims, in the order of their sources."""
    return _file().claim


def sources() -> dict[str, Source]:
    """Return the sources by the names that claims use."""
    return _file().source


def claim(name: str) -> Claim:
    """Return the claim of an id. Raises UsageError that says how to list them."""
    for one in claims():
        if one.id == name:
            return one
    raise UsageError(f"claim {name!r} is unknown: `normbench claims --list` lists them")
