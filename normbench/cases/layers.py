"""Names of a network's layers. Pure."""

from __future__ import annotations

__all__ = ["like_layers"]


def like_layers(path: str) -> str:
    """Return a path with its numbers left open, so that like layers have one name: `h.0.ln` and `h.1.ln` are `h.*.ln`."""
    return ".".join("*" if part.isdecimal() else part for part in path.split("."))
