"""Paths that a user gives, looked at before any work: a result that cannot be written after an hour is no way to find out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import NormbenchError, UsageError
from ..storage.files import explained

__all__ = ["attempted", "require_file_place", "require_folder_place", "require_folder_there", "write_file"]


def require_folder_there(option: str, path: Path | None) -> None:
    """Raise UsageError where a folder that was named to be read is not there."""
    if path is not None and not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise UsageError(f"{option} {str(path)!r} {what}: give a folder that is there")


def require_folder_place(option: str, path: Path | None) -> None:
    """Raise UsageError where no folder to write to can be made of a path."""
    if path is None:
        return
    there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    if not there.is_dir():
        raise UsageError(f"{option} {str(path)!r} cannot be a folder: {str(there)!r} is a file; give another folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {str(path)!r} cannot be written: {str(there)!r} may not be written to; give another folder")


def require_file_place(option: str, path: Path | None) -> None:
    """Raise UsageError where no file can be written to a path; its folder must be there."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{option} {str(path)!r} is a folder: give the name of a file")
    if not path.parent.is_dir():
        raise UsageError(f"{option}: folder {str(path.parent)!r} of {path.name!r} does not exist: make it, or give another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{option} {str(path)!r} may not be written to: give another file")


def write_file(path: Path, data: bytes) -> None:
    """Write a file that the user named. Raises NormbenchError where it cannot be written."""
    with explained(f"cannot write {path}"):
        path.write_bytes(data)


def attempted(write: Callable[[], Path]) -> tuple[Path | None, NormbenchError | None]:
    """Return the path of a page that was written, or why it was not: the result is shown first, and the failure raised after it."""
    try:
        return write(), None
    except NormbenchError as error:
        return None, error
