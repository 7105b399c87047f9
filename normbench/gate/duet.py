"""The task of one of two processes that take turns on a draw of tensors: one of them works, the other waits, in an order both know."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from random import Random
from typing import Any

import msgspec

from ..cases.case import Case
from ..cases.conditions import Cache, Conditions, Pages
from ..errors import NormbenchError
from ..measure.process import loaded_provider, prepare_process, prepared_function
from ..measure.sampler import Call, Samples, first_calls, in_turn, warm_up
from ..measure.timer import timer_of
from .arms import Side

__all__ = ["Baton", "DuetTask", "PartnerLost", "PartnerSilent", "duet", "order_of", "release"]

SILENCE_S = 100.0
"""How long one process waits for the other: less than the conductor waits for either, so that the one that hangs is known."""


class PartnerLost(NormbenchError):
    """Report that the other process of a duet ended before its work did."""


class PartnerSilent(NormbenchError):
    """Report that the other process of a duet did not hand over for too long."""


class DuetTask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for one side's samples: `turns` of them, of `inner` calls each. Both sides have the same numbers and seed.

    `cpu` is the number of the CPU that both are bound to, None where they need more than one: left to the system, blocks of identical
    code spread twice as much. `address` is the path of the socket by which the two meet: the one that `listens` makes it, and is
    started first.
    """

    case: Case
    conditions: Conditions
    provider: str
    side: Side
    seed: int
    peak_bytes: int
    turns: int
    inner: int
    cpu: int | None
    address: str
    listens: bool


class Baton:
    """Let one of two processes work at a time: `with baton:` is this one's next turn. `order` names whose turn it is, one after the other.

    Raises PartnerLost and PartnerSilent.
    """

    def __init__(self, connection: socket.socket, mine: Side, order: Sequence[Side]) -> None:
        self._connection = connection
        self._mine = mine
        self._order = deque(order)

    def __enter__(self) -> None:
        if self._order[0] is self._mine:
            return
        while self._order[0] is not self._mine:
            self._order.popleft()
        try:
            token = self._connection.recv(1)
        except TimeoutError:
            raise PartnerSilent(f"the other process did not hand over for {SILENCE_S:g} s") from None
        except OSError:
            token = b""
        if not token:
            raise PartnerLost("the other process ended")

    def __exit__(self, *exc_info: object) -> None:
        self._order.popleft()
        if self._order and self._order[0] is not self._mine:
            try:
                self._connection.sendall(b".")
            except OSError:
                raise PartnerLost("the other process ended") from None


def order_of(turns: int, seed: int) -> list[Side]:
    """Return who works when: both set up, then take their turns, who is first drawn anew each time."""
    rng = Random(seed)
    return [side for _ in range(1 + turns) for side in rng.sample(list(Side), 2)]


def duet(task: DuetTask, emit: Callable[[Any], None]) -> None:
    """Take one side's turns. Emits "listens" when the other may be started, and at last its seconds per call, a tuple.

    All is done as in `measure.block`, but that the tensors are this process's own, of the same values as the other's.
    """
    import torch

    from ..host.cache import make_flush
    from ..oracle.problem import make_problem
    from ..workloads.op import make_call, private_copies

    if task.cpu is not None:
        os.sched_setaffinity(0, {task.cpu})
    device = prepare_process(task.conditions, task.case, task.conditions.pages)
    provider, function = loaded_provider(task.provider), prepared_function(task.provider, task.case)
    timer = timer_of(device, is_single=False)
    with closing(_met(task, emit)) as connection:
        baton = Baton(connection, task.side, order_of(task.turns, task.seed))
        with baton:
            ballast = torch.empty(Random(f"{task.side} {task.seed}").randrange(1, 2**20), dtype=torch.uint8)
            problem = make_problem(task.case, device=device, seed=task.seed)
            own, restore = private_copies(problem, provider.mutates(task.case))
            flush = make_flush(device) if task.conditions.cache is Cache.COLD else None
            call = Call(run=make_call(own, function), before=in_turn(restore, flush))
            if task.conditions.pages is Pages.REUSED and device.type == "cpu":
                # Pages that are to be reused must have been used.
                torch.empty(task.peak_bytes + 2 * problem.x.nbytes, dtype=torch.uint8).fill_(1)
            first_calls({task.provider: call}, timer)
            warm_up({task.provider: call}, timer)
        samples = Samples()
        for _ in range(task.turns):
            with baton:
                call.prepare()
                samples.add(timer.sample(call.run, task.inner))
        del ballast
    emit(tuple(samples.time_s))


def _met(task: DuetTask, emit: Callable[[Any], None]) -> socket.socket:
    """Return the connection to the other process, which is waited for where this one listens."""
    if not task.listens:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(task.address)
    else:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(task.address)
            door.listen(1)
            door.settimeout(SILENCE_S)
            emit("listens")
            try:
                connection, _ = door.accept()
            except TimeoutError:
                raise PartnerSilent(f"the other process did not come for {SILENCE_S:g} s") from None
    connection.settimeout(SILENCE_S)
    return connection


def release(address: str) -> None:
    """Come in the place of a process that never will, and leave again: the one that listens then knows that it is alone."""
    with socket.socket(socket.AF_UNIX) as visitor:
        try:
            visitor.connect(address)
        except OSError:
            # Its partner had come: the end of their connection has told it already.
            return
