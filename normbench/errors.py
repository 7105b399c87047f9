"""The two exceptions that leave the package."""

from __future__ import annotations

__all__ = ["NormbenchError", "UsageError"]


class NormbenchError(Exception):
    """Report a failure whose message says what was wrong, the value, and what to do."""


class UsageError(NormbenchError):
    """Report input that can never work, found before anything is measured."""
