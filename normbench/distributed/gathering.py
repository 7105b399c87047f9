"""How the ranks of a run talk: rank 0 tells the others what to do, and they answer with what came of it.

A rank is the process that torchrun started. It computes nothing: what it is told to run runs in forks of a server of its own, as
everywhere in this package, so that a rank always hears, and says how its computing process ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any

import msgspec

from ..errors import NormbenchError
from ..measure.servers import Servers
from ..measure.worker import die_with
from .place import Place

__all__ = ["Command", "Gathering", "SetUp", "current", "serve"]

_ATTEMPTS, _PAUSE_S = 1200, 0.05
"""How often a rank looks whether rank 0 listens: for a minute. Rank 0 does that before anything else."""

_ASSEMBLY_S = 60.0
"""For how long rank 0 waits for another one to be there: the time that importing may take on a busy disk."""


current: Gathering | None = None
"""The other ranks, where this process is rank 0 of several; set by what torchrun started."""


class SetUp(msgspec.Struct, frozen=True, kw_only=True):
    """Say with what a rank's server is started; see `Servers`."""

    providers: tuple[str, ...]
    device: str
    log: str
    timeout_s: float


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Ask a rank to run `module:function(argument)` in a fork, or, `resident`, in its server itself."""

    task: str
    argument: Any
    resident: bool = False


class Gathering:
    """Hold rank 0's connections to all others; they end with it. A context manager."""

    def __init__(self, place: Place) -> None:
        self.place = place
        place.make_folder()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(place.socket)
        self._socket.listen(place.size)
        self._socket.settimeout(_ASSEMBLY_S)
        self._peers: dict[int, Connection] = {}

    def peers(self) -> dict[int, Connection]:
        """Return the connection to every other rank, once all are there. Raises NormbenchError when one does not come."""
        while len(self._peers) < self.place.size - 1:
            try:
                accepted, _ = self._socket.accept()
            except TimeoutError:
                missing = sorted({*range(1, self.place.size)} - self._peers.keys())
                raise NormbenchError(f"no word of rank {', '.join(map(str, missing))} for {_ASSEMBLY_S:g} s: it did not start") from None
            connection = Connection(accepted.detach())
            self._peers[connection.recv()] = connection
        return self._peers

    def __enter__(self) -> Gathering:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            # Whoever comes late must not look for this folder in vain: torchrun waits for all of them.
            with suppress(NormbenchError, EOFError):
                self.peers()
        for connection in self._peers.values():
            connection.close()
        self._socket.close()
        shutil.rmtree(self.place.folder, ignore_errors=True)


def serve(place: Place) -> int:
    """Do what rank 0 says and exit when it ends; return the exit code when rank 0 never came, or is gone."""
    # Ctrl-C reaches every process of a terminal; rank 0 decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(os.getppid())
    connection = _connect(place)
    if connection is None:
        return 1
    # torchrun, told to end, tells every rank. This one ends with rank 0, which would otherwise take its end for the cause.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    orders: Queue[Any] = Queue()
    threading.Thread(target=_listen, args=(connection, orders), daemon=True).start()
    servers: Servers | None = None
    try:
        connection.send(place.rank)
        while True:
            order = orders.get()
            try:
                if isinstance(order, SetUp):
                    servers = Servers(order.providers, device=order.device, log=Path(order.log), timeout_s=order.timeout_s)
                    answer: Any = []
                elif order.resident:
                    _needed(servers).prepare(order.task, order.argument)
                    answer = []
                else:
                    answer = list(_needed(servers).run(order.task, order.argument))
            except NormbenchError as error:
                answer = error
            connection.send(answer)
    except OSError:
        return 0
    finally:
        if servers is not None:
            servers.close()


def _listen(connection: Connection, orders: Queue[Any]) -> None:
    """Hand on what rank 0 says, and end this process with it, whatever it is doing: its server dies with it."""
    try:
        while True:
            orders.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


def _needed(servers: Servers | None) -> Servers:
    assert servers is not None, "told to run before it was set up"
    return servers


def _connect(place: Place, pause: Callable[[float], Any] | None = None) -> Connection | None:
    pause = pause or threading.Event().wait
    for _ in range(_ATTEMPTS):
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(place.socket)
        except OSError:
            found.close()
            pause(_PAUSE_S)
        else:
            return Connection(found.detach())
    return None
