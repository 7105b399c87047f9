"""Which of several processes this one is: what torchrun says of it, and the folder where the ranks of one run meet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..errors import NormbenchError, UsageError

__all__ = ["Place"]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Name one rank of `size`, and the folder that all of them have in common."""

    rank: int
    size: int
    folder: str

    @classmethod
    def find(cls, environment: Mapping[str, str], parent: int) -> Place | None:
        """Return the place that torchrun's variables give, or None without them; `parent` is the process that started all ranks.

        Raises UsageError for ranks on several nodes.
        """
        if "RANK" not in environment or "WORLD_SIZE" not in environment:
            return None
        rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        here = int(environment.get("LOCAL_WORLD_SIZE", size))
        if here != size:
            raise UsageError(
                f"torchrun started {size} processes, {here} of them here: normbench measures those of one node; give --nnodes 1"
            )
        # The agent's number is the same for all its ranks and no other's; it holds while they live.
        return cls(rank=rank, size=size, folder=str(Path(tempfile.gettempdir()) / f"normbench-{os.getuid()}-{parent}"))

    @property
    def socket(self) -> str:
        """Return the path of the socket that rank 0 listens on."""
        return f"{self.folder}/rank0"

    def make_folder(self) -> None:
        """Make the folder. Raises NormbenchError when someone else could write there."""
        path = Path(self.folder)
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077 or path.is_symlink():
            raise NormbenchError(f"{path} belongs to somebody else: remove it, or point TMPDIR to a folder of your own")
        # What a run of the same number left behind.
        for old in path.iterdir():
            old.unlink()
