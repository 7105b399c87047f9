"""A gate run on disk: `gate.json` (what was asked, where), `blocks.jsonl` (raw samples as they come) and `outcome.json`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..errors import UsageError
from ..storage.files import AppendedFile, explained, make_directory, write_atomically
from .outcome import Outcome, to_json
from .standing import BlockSamples

__all__ = ["Archive", "read_blocks"]

_ABOUT, _BLOCKS, _OUTCOME = "gate.json", "blocks.jsonl", "outcome.json"


class Archive:
    """Write one gate run into a new folder under `root`. Close it, or use it as a context manager."""

    def __init__(self, root: Path, about: dict[str, Any]) -> None:
        self.path = make_directory("gate run", root, f"{datetime.now(UTC):%Y%m%dT%H%M%S}")
        with explained(f"{self.path} cannot be written"):
            write_atomically(self.path / _ABOUT, msgspec.json.format(msgspec.json.encode(about), indent=2))
            self._blocks = AppendedFile(self.path / _BLOCKS)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        self._blocks.close()

    def append(self, block: BlockSamples) -> None:
        """Write a block's raw samples as a line of strict JSON."""
        with explained(f"{self.path / _BLOCKS} cannot be written"):
            self._blocks.append(msgspec.json.encode(block) + b"\n")

    def conclude(self, outcome: Outcome) -> None:
        """Write the outcome."""
        with explained(f"{self.path / _OUTCOME} cannot be written"):
            write_atomically(self.path / _OUTCOME, to_json(outcome))


def read_blocks(path: Path) -> dict[str, list[BlockSamples]]:
    """Return the blocks of a gate run by candidate, in the order they were taken. Raises UsageError where there are none."""
    file = path / _BLOCKS
    if not file.is_file():
        raise UsageError(f"{path} is no gate run: it has no {_BLOCKS}")
    found: dict[str, list[BlockSamples]] = {}
    lines = file.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            block = msgspec.json.decode(line, type=BlockSamples)
        except msgspec.DecodeError as error:
            # The last line of a run that was killed may be half there.
            if number == len(lines):
                break
            raise UsageError(f"{file}, line {number}: {error}") from None
        found.setdefault(block.candidate, []).append(block)
    return found
