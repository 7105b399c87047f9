"""The file of a run's records, line by line: read whole or as a stream, and mended after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import NormbenchError
from ..records.record import decode_record
from .files import explained, write_atomically

__all__ = ["RECORDS", "mend", "read_lines", "stream_lines"]

RECORDS = "records.jsonl"
"""Name of a run's file of records, one line each."""


def stream_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number, from 1, and text of each complete line, one at a time; a missing file has none.

    A last line without its newline is left out unless it is a whole record.
    """
    with explained(f"cannot read {path}"):
        if not path.exists():
            return
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield number, line[:-1]
                elif _is_record(line, path):
                    yield number, line


def read_lines(path: Path) -> tuple[list[bytes], bool]:
    """Return the complete lines, and whether what follows the last newline is no record. A missing file has no lines."""
    with explained(f"cannot read {path}"):
        data = path.read_bytes() if path.exists() else b""
    *lines, rest = data.split(b"\n")
    if not rest:
        return lines, False
    return ([*lines, rest], False) if _is_record(rest, path) else (lines, True)


def mend(path: Path) -> None:
    """Make the file end in a newline: cut off a torn last line, end a complete one."""
    data = path.read_bytes() if path.exists() else b""
    if data and not data.endswith(b"\n"):
        lines, _ = read_lines(path)
        write_atomically(path, b"".join(line + b"\n" for line in lines))


def _is_record(line: bytes, path: Path) -> bool:
    try:
        decode_record(line, origin=str(path))
    except NormbenchError:
        return False
    return True
