"""A Ray cluster as seats: each a device, or all cores of a node, held by one actor for as long as there is something to measure.

Nodes need the same installation, normbench included: nothing is shipped to them, and one whose software differs is not measured on.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..cases.case import Case
from ..cases.model_case import ModelCase
from ..cases.throughput_case import ThroughputCase
from ..errors import UsageError
from ..job.request import Request
from ..measure.group import Group
from ..measure.process import first_line
from .address import check_address
from .dispatch import Broken, Event, Measured
from .station import Introduction, Order, Station, software

__all__ = ["OPEN_S", "RayCluster", "load_ray"]

OPEN_S = 60.0
"""How long a node may take until it has the cores or the device free, and providers loaded: importing torch from a network's disk can
take half of that."""


def load_ray() -> Any:
    """Return the module. Raises UsageError with the command that installs it."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UsageError(f"--ray needs Ray, which cannot be imported here ({error}): pip install 'normbench[ray]'") from None


class _Seat:
    """Hold one device, or all cores of a node, and the actor that has it.

    `reference` is what is awaited of the actor, until `deadline`; `broken` why its predecessor ended, until it is known whether the
    node is still there.
    """

    def __init__(self, name: str, node: str, resources: dict[str, Any]) -> None:
        self.name = name
        self.node = node
        self.resources = resources
        self.actor: Any = None
        self.reference: Any = None
        self.deadline = 0.0
        self.is_open = False
        self.broken: str | None = None


class RayCluster:
    """Measure on the nodes of a Ray cluster. A context manager; leaving it ends whatever still runs for it.

    `notes` says in words which nodes were left out or lost, `machines` holds what the others said of themselves. `station` is the class
    of what works on a node. Raises UsageError on entry when there is no cluster at `address`, or when no node can be measured on.
    """

    def __init__(self, request: Request, address: str, *, folder: str, is_any_version: bool = False, station: type = Station) -> None:
        """Prepare to measure what is requested; providers that are files lie in `folder`, here and on the nodes."""
        self.notes: list[str] = []
        self.machines: dict[str, Introduction] = {}
        self._address = address
        self._request = request
        networks = {case.label: case for case in request.cases if isinstance(case, ModelCase | ThroughputCase)}
        self._order = Order(
            providers=request.providers, networks=tuple(networks.values()), device=request.device, plan=request.plan, folder=folder
        )
        self._is_any_version = is_any_version
        self._station = station
        self._seats: dict[str, _Seat] = {}
        self._nodes: set[str] = set()
        if request.device.startswith("cuda:"):
            raise UsageError(f"device {request.device!r} means nothing on a cluster, which gives each task a device: say cuda")

    def __enter__(self) -> RayCluster:
        self._ray = load_ray()
        check_address(self._address)
        self._ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            self._software = software(self._order)
            self._enlist()
            self._await_first()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs on the nodes and leave the cluster."""
        for seat in self._seats.values():
            self._end(seat)
        self._seats.clear()
        self._ray.shutdown()

    def norms_of(self, cases: Sequence[ModelCase]) -> dict[ModelCase, dict[Case, int]]:
        """Return the norm calls of networks, as a node finds them. Raises what it raises there."""
        seat = next(one for one in self._seats.values() if one.is_open)
        try:
            found: dict[ModelCase, dict[Case, int]] = self._ray.get(seat.actor.norms_of.remote(tuple(cases)))
        except self._ray.exceptions.RayTaskError as error:
            raise UsageError(f"node {seat.name}: {first_line(error.cause)}") from None
        return found

    def free_seats(self) -> list[str]:
        return [seat.name for seat in self._seats.values() if seat.is_open and seat.reference is None]

    def is_hopeful(self) -> bool:
        return any(not seat.is_open for seat in self._seats.values())

    def start(self, seat: str, groups: Sequence[Group]) -> None:
        held = self._seats[seat]
        self._expect(held, held.actor.measure.remote(tuple(groups)), _longest_s(groups, self._order))

    def wait(self, timeout_s: float) -> Iterable[Event]:
        waiting = {seat.reference: seat for seat in self._seats.values() if seat.reference is not None}
        ready = self._ray.wait(list(waiting), num_returns=1, timeout=timeout_s)[0] if waiting else []
        if not ready:
            self._enlist()
        now = time.monotonic()
        overdue = [reference for reference, seat in waiting.items() if now > seat.deadline and reference not in ready]
        events = [self._answered(waiting[reference]) for reference in ready]
        events += [self._failed(waiting[reference], "nothing was heard of it for longer than its task may take") for reference in overdue]
        return [event for event in events if event is not None]

    def _enlist(self) -> None:
        """Take a seat on every node that was not known yet."""
        for node in self._ray.nodes():
            if not node["Alive"] or node["NodeID"] in self._nodes:
                continue
            self._nodes.add(node["NodeID"])
            for resources in self._shares(node):
                seat = _Seat(self._name(node, resources), node["NodeID"], resources)
                self._seats[seat.name] = seat
                self._hire(seat)

    def _shares(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what each seat of a node holds: a GPU and the threads beside it, or all cores, since neighbours share their caches."""
        cores, cards, threads = node["Resources"].get("CPU", 0), int(node["Resources"].get("GPU", 0)), self._request.threads
        if self._request.device == "cuda":
            return [{"num_cpus": min(threads, cores / cards), "num_gpus": 1} for _ in range(cards)]
        if not cores:
            # A head node that computes nothing says so by having no cores.
            return []
        if cores < threads:
            self.notes.append(
                f"node {node['NodeManagerAddress']} was left out: it has {cores:g} cores, and {threads} threads were asked for"
            )
            return []
        return [{"num_cpus": cores}]

    def _name(self, node: dict[str, Any], resources: dict[str, Any]) -> str:
        """Return the node's address; with its id where another node has the same, and with a number where it has several devices."""
        address = str(node["NodeManagerAddress"])
        others = {seat.name for seat in self._seats.values() if seat.node != node["NodeID"]}
        if any(name.partition("/")[0] == address for name in others):
            address += f"-{node['NodeID'][:8]}"
        taken = sum(seat.node == node["NodeID"] for seat in self._seats.values())
        return f"{address}/gpu{taken}" if "num_gpus" in resources else address

    def _hire(self, seat: _Seat) -> None:
        """Start an actor that holds the seat, once all of that is free, and ask it to introduce itself."""
        placed = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy(node_id=seat.node, soft=False)
        # Nothing is restarted or retried by Ray: a task that was begun twice would be counted twice.
        options = {"scheduling_strategy": placed, "max_restarts": 0, "max_task_retries": 0, **seat.resources}
        seat.actor = self._ray.remote(self._station).options(**options).remote(self._order, seat.name)
        seat.is_open = False
        self._expect(seat, seat.actor.open.remote(), OPEN_S)

    @staticmethod
    def _expect(seat: _Seat, reference: Any, longest_s: float) -> None:
        seat.reference, seat.deadline = reference, time.monotonic() + longest_s

    def _answered(self, seat: _Seat) -> Event | None:
        """Take what a seat answered, or that it will not."""
        try:
            answer = self._ray.get(seat.reference)
        except Exception as error:
            # Ray wraps what was raised on the node, and puts its own traceback first.
            return self._failed(seat, first_line(getattr(error, "cause", None) or error))
        seat.reference = None
        if seat.is_open:
            return Measured(seat=seat.name, results=answer)
        return self._opened(seat, answer)

    def _opened(self, seat: _Seat, found: Introduction) -> Event | None:
        differing = [
            f"{name} {found.software.get(name)}, here {here}" for name, here in self._software.items() if found.software.get(name) != here
        ]
        refusal = found.refusal
        if differing and not self._is_any_version:
            refusal = f"{'; '.join(differing)}; install the same there, or allow it with --ray-any-version"
        if refusal is not None:
            return self._leave(seat, f"was left out: {refusal}")
        seat.is_open = True
        self.machines[found.name] = found
        reason, seat.broken = seat.broken, None
        return Broken(seat=seat.name, reason=f"its process on node {seat.name} ended: {reason}", is_lost=False) if reason else None

    def _failed(self, seat: _Seat, reason: str) -> Event | None:
        """End a seat's actor. If the node answers another one, what was measured was at fault; if not, the node is lost."""
        was_open = seat.is_open
        self._end(seat)
        if was_open and self._is_alive(seat):
            seat.broken = reason
            self._hire(seat)
            return None
        seat.broken = seat.broken or (reason if was_open else None)
        return self._leave(
            seat, f"was lost: {reason}" if seat.broken else f"was left out: it could not be had within {OPEN_S:g} s ({reason})"
        )

    def _leave(self, seat: _Seat, why: str) -> Event | None:
        self._end(seat)
        del self._seats[seat.name]
        self.notes.append(f"node {seat.name} {why}")
        return Broken(seat=seat.name, reason=f"node {seat.name} {why}", is_lost=True) if seat.broken else None

    def _is_alive(self, seat: _Seat) -> bool:
        return any(node["NodeID"] == seat.node and node["Alive"] for node in self._ray.nodes())

    def _end(self, seat: _Seat) -> None:
        seat.reference, seat.is_open = None, False
        if seat.actor is not None:
            self._ray.kill(seat.actor)
            seat.actor = None

    def _await_first(self) -> None:
        """Wait until a node can be measured on. Raises UsageError with what the nodes said when none can."""
        while not any(seat.is_open for seat in self._seats.values()):
            if not self._seats:
                told = "; ".join(self.notes) or "none has the cores or devices that were asked for"
                raise UsageError(f"no node of the cluster at {self._address!r} can be measured on: {told}")
            self.wait(1.0)


def _longest_s(groups: Sequence[Group], order: Order) -> float:
    """Return after how long a task is taken to hang: a process of it that says nothing is ended by the node itself much earlier."""
    plan = order.plan
    return sum(plan.timeout_s + 4 * plan.budget_s * group.share + len(group.arms) * plan.sustain_s for group in groups)
