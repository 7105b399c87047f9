"""Words that a user typed, held against those that there are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeVar

from ..errors import UsageError
from .choices import split

__all__ = ["member", "members", "one_of", "refuse_providers", "some_of"]

_E = TypeVar("_E", bound=StrEnum)


def one_of(known: Iterable[str], word: str, what: str) -> str:
    """Return a word that is among the known ones. Raises UsageError that lists those, `what` being what the word is to name."""
    names = [str(name) for name in known]
    if str(word) not in names:
        raise UsageError(f"{what} {str(word)!r} is unknown; known are {', '.join(names)}")
    return str(word)


def some_of(known: Iterable[str], text: str, what: str, *, every: str | None = None) -> list[str]:
    """Return the words of a comma-separated list, each once; `every`, if given, is the word that stands for all known ones.

    Raises UsageError that lists the known ones, for a word that is not among them and for a list that is empty.
    """
    names = [str(name) for name in known]
    offered = names if every is None else [*names, every]
    words = [one_of(offered, word, what) for word in split(text)]
    if not words:
        raise UsageError(f"{what} is empty; known are {', '.join(offered)}")
    return names if every in words else words


def member(kind: type[_E], value: str, what: str) -> _E:
    """Return the member of an enum with a value. Raises UsageError that lists what there is."""
    return kind(one_of(kind, value, what))


def members(kind: type[_E], text: str, what: str, *, every: str | None = None) -> tuple[_E, ...]:
    """Return the members that a comma-separated list names; see `some_of`."""
    return tuple(kind(word) for word in some_of(kind, text, what, every=every))


def refuse_providers(names: Sequence[str]) -> None:
    """Raise UsageError for names of providers that are none at all, or name one twice."""
    if not names:
        raise UsageError("no provider was asked for: name at least one, such as aten")
    if len(set(names)) != len(names):
        raise UsageError(f"providers {', '.join(names)} name one twice")
