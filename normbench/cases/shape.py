"""Shapes as text, `4x128x512`: in ids, on the command line, in tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import UsageError

__all__ = ["parsed_shape", "shape_text"]


def shape_text(sizes: Iterable[int]) -> str:
    """Return a shape as text, e.g. `4x128x512`."""
    return "x".join(map(str, sizes))


def parsed_shape(text: str) -> tuple[int, ...]:
    """Return the sizes of a shape such as `4x128x512`. Raises UsageError for what is none, as is a size of more than 18 digits."""
    if not re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18})*", text):
        raise UsageError(f"{text!r} is not a shape such as 4x128x512")
    return tuple(map(int, text.split("x")))
