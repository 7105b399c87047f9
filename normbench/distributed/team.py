"""Rank 0's view of all ranks: it has every one of them run a task at the same time, and tells what came of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from ..errors import NormbenchError
from ..measure.servers import Servers
from .failure import RankGone, explain
from .gathering import Command, Gathering, SetUp
from .position import read_positions
from .sealed import RUN, RUN_RESIDENT, seal, unseal
from .session import Seat

__all__ = ["Team"]

_AFTERMATH_S = 2.0
"""For how long, once a rank has failed, the others are heard: the first to say so need not be the cause."""


class Team:
    """Run tasks on all ranks: on rank 0 by `servers`, on the others by theirs."""

    def __init__(self, gathering: Gathering, servers: Servers, setup: SetUp) -> None:
        """Set the others up. Raises what a rank says when it cannot be."""
        self._place = gathering.place
        self._servers = servers
        self._timeout_s = setup.timeout_s
        self._peers = gathering.peers()
        self._answers: Queue[tuple[int, Any]] = Queue()
        self._logs = {rank: _log_of(rank, Path(setup.log)) for rank in range(self._place.size)}
        self._starts = {rank: log.stat().st_size if log.exists() else 0 for rank, log in self._logs.items()}
        self._task = 0
        for rank, connection in self._peers.items():
            threading.Thread(target=self._listen, args=(rank, connection), daemon=True).start()
            connection.send(SetUp(providers=setup.providers, device=setup.device, log=str(self._logs[rank]), timeout_s=setup.timeout_s))
        self._collect(set(self._peers))

    @property
    def size(self) -> int:
        return self._place.size

    def prepare(self, task: str, argument: Any) -> None:
        """Run `module:function(argument)` in the servers of all other ranks; rank 0's has run it. Where that fails, forks do it."""
        for connection in self._peers.values():
            connection.send(Command(task=RUN_RESIDENT, argument=seal(task, argument), resident=True))
        self._collect(set(self._peers), fatal=RankGone)

    def run(self, task: str, argument_of: Callable[[Seat], Any], *, parallel: Any) -> list[list[Any]]:
        """Run `module:function` in a fork on every rank and return what each emitted, Nones left out.

        Raises RankFailed when a rank dies, hangs or fails.
        """
        self._task += 1
        folder, size, limit_s = self._place.folder, self.size, self._timeout_s
        arguments = [
            seal(task, argument_of(Seat(rank=rank, size=size, folder=folder, task=self._task, timeout_s=limit_s, parallel=parallel)))
            for rank in range(self.size)
        ]
        for rank, connection in self._peers.items():
            connection.send(Command(task=RUN, argument=arguments[rank]))
        threading.Thread(target=self._run_here, args=(arguments[0],), daemon=True).start()
        answers = self._collect({0, *self._peers})
        opened = [[unseal(value) for value in answers[rank]] for rank in range(self.size)]
        return [[value for value in values if value is not None] for values in opened]

    def _run_here(self, sealed: tuple[str, bytes]) -> None:
        try:
            answer: Any = list(self._servers.run(RUN, sealed))
        except NormbenchError as error:
            answer = error
        except OSError as error:
            # The server was ended because another rank failed.
            answer = NormbenchError(str(error))
        self._answers.put((0, answer))

    def _listen(self, rank: int, connection: Connection) -> None:
        try:
            while True:
                self._answers.put((rank, connection.recv()))
        except (EOFError, OSError):
            self._answers.put((rank, RankGone("the process that torchrun started ended")))

    def _collect(self, ranks: set[int], fatal: type[NormbenchError] = NormbenchError) -> dict[int, Any]:
        """Return the answers of these ranks. Raises RankFailed for the `fatal` failure that explains all others."""
        answers: dict[int, Any] = {}
        failures: dict[int, NormbenchError] = {}
        try:
            while ranks - answers.keys():
                rank, answer = self._answers.get(timeout=_AFTERMATH_S if failures else None)
                answers[rank] = answer
                if isinstance(answer, fatal):
                    # torchrun ends all ranks when one is gone; this one has records to keep.
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    failures.setdefault(rank, answer)
        except Empty:
            pass
        except KeyboardInterrupt:
            # torchrun may be the first to know that a rank is gone.
            failures |= self._those_gone()
            if not failures:
                raise
        if failures:
            positions = read_positions(self._place.folder, self.size, self._task)
            raise explain(failures, positions, {rank: (self._logs[rank], self._starts[rank]) for rank in self._logs})
        return answers

    def _those_gone(self) -> dict[int, NormbenchError]:
        gone: dict[int, NormbenchError] = {}
        try:
            while True:
                rank, answer = self._answers.get(timeout=0.3)
                if isinstance(answer, RankGone):
                    gone[rank] = answer
        except Empty:
            return gone


def _log_of(rank: int, log: Path) -> Path:
    return log if rank == 0 else log.with_name(f"{log.stem}.rank{rank}{log.suffix}")
