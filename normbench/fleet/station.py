"""What works on a node of a cluster: it says what the node is, then checks and measures groups there, one task at a time."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..cases.case import Case
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..errors import NormbenchError
from ..host.machine import machine_record, package_versions
from ..measure.group import Group
from ..measure.measurer import Measurer
from ..measure.plan import Plan
from ..records.record import Record
from .machines import machine_name

__all__ = ["SOFTWARE", "Introduction", "Order", "Results", "Station", "software"]

SOFTWARE = ("normbench", "torch", "triton", "python")
"""What must be the same on every node, or times differ for another reason than the machine."""

Results = list[tuple[Group, list[Record]]]
"""What became of groups, in the order in which they were decided."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a node what it will have to measure: providers as they were typed, in the folder they were typed in.

    `networks` has a case of each network that will be built.
    """

    providers: tuple[str, ...]
    networks: tuple[ModelCase | ThroughputCase, ...] = ()
    device: str
    plan: Plan
    folder: str


class Introduction(msgspec.Struct, frozen=True, kw_only=True):
    """Hold what a node says of itself; `refusal` is why nothing can be measured there, null when it can.

    `software` has a version, or a digest of source files, for each thing that must be the same everywhere.
    """

    name: str
    machine: dict[str, Any]
    versions: dict[str, str | None]
    software: dict[str, str]
    refusal: str | None = None


def software(order: Order) -> dict[str, str]:
    """Return what decides which code is timed: versions, and digests of normbench's own sources and of the providers' files."""
    package = Path(__file__).parent.parent
    sources = sorted(package.rglob("*.py"))
    found = {name: str(version) for name, version in package_versions().items() if name in SOFTWARE}
    found["source files of normbench"] = _digest(sources, package)
    for provider in order.providers:
        if provider.endswith(".py"):
            path = Path(order.folder, provider)
            found[f"provider file {provider}"] = _digest([path], path.parent) if path.is_file() else f"not at {path}"
    return found


def _digest(files: Sequence[Path], root: Path) -> str:
    made = hashlib.blake2b(digest_size=6)
    for file in files:
        made.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return made.hexdigest()


class Station:
    """Measure on one node, for as long as it holds the node's device or cores. `node` is what records name as theirs."""

    def __init__(self, order: Order, node: str) -> None:
        self._order = order
        self._node = node
        self._measurer: Measurer | None = None
        self._name = ""

    def open(self) -> Introduction:
        """Load providers and networks on the node and return what it says of itself."""
        # Ray sets it to the cores that a task holds; how many threads compute is for a case's conditions alone.
        os.environ.pop("OMP_NUM_THREADS", None)
        order, versions = self._order, package_versions()
        machine, refusal = machine_record(), None
        found = software(order)
        try:
            if Path(order.folder).is_dir():
                os.chdir(order.folder)
            log = Path(tempfile.mkdtemp(prefix="normbench-")) / "worker.log"
            self._measurer = Measurer(order.providers, device=order.device, plan=order.plan, log=log)
            machine["device"] = dict(self._measurer.device)
            self._measurer.load_networks(order.networks)
        except NormbenchError as error:
            refusal = str(error)
            self.close()
        self._name = machine_name(machine, versions)
        return Introduction(name=self._name, machine=machine, versions=versions, software=found, refusal=refusal)

    def norms_of(self, cases: Sequence[ModelCase]) -> dict[ModelCase, dict[Case, int]]:
        """Return the norm calls of networks; see `Measurer.norms_of`."""
        assert self._measurer is not None
        return self._measurer.norms_of(cases)

    def measure(self, groups: Sequence[Group]) -> Results:
        """Measure groups in rotation and return what became of each, with the node's name on every record."""
        assert self._measurer is not None
        results: Results = []
        self._measurer.measure_all(groups, on_done=lambda group, records: results.append((group, self._signed(records))))
        return results

    def _signed(self, records: Sequence[Record]) -> list[Record]:
        return [msgspec.structs.replace(record, machine=self._name, node=self._node) for record in records]

    def close(self) -> None:
        """End what measures here; Ray ends it with the process."""
        if self._measurer is not None:
            self._measurer.close()
            self._measurer = None

    def process(self) -> int:
        """Return the number of the process that measures here."""
        return os.getpid()
