"""The arena of two interpreters: their processes take turns, and see less than one process would.

Which physical pages a process got decides its speed and stays: identical code in two processes that alternate has block ratios that
spread by percents. The smallest change that a case could have shown comes out of its blocks and is larger accordingly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from ..errors import NormbenchError, UsageError
from ..host.threads import affinity
from ..measure.checking import CheckResult, CheckTask
from ..measure.plan import Schedule
from ..measure.servers import server_environment
from ..measure.worker import TaskTimeout, Worker
from .arena import TIMEOUT_S, checked
from .arms import Side
from .duet import DuetTask, PartnerLost, PartnerSilent, release
from .interpreter import Harness, Interpreter, relay, running_interpreter
from .likeness import Account, AccountTask
from .outcome import Code
from .process import Candidate, Setup
from .sources import Difference
from .standing import BlockSamples

__all__ = ["TwoProcesses"]

_SET_UP = f"{__package__}.process:set_up_arms"
_ABSENCE = f"{__package__}.process:tell_absence"
_ACCOUNT = f"{__package__}.likeness:give_account"
_DUET = f"{__package__}.duet:duet"


class _Role(StrEnum):
    """Name the servers. `stand_in` has head's interpreter and the base's side of the controls, which no interpreter may move."""

    BASE = "base"
    HEAD = "head"
    STAND_IN = "stand-in"


class TwoProcesses:
    """Measure base in forks of a server that another interpreter runs, beside head in forks of one of this interpreter."""

    def __init__(self, setup: Setup, log: Path, *, base_python: Interpreter) -> None:
        self._setup = setup
        self._log = log
        self._base_python = base_python
        self._head_python = running_interpreter()
        self._open = ExitStack()
        self._servers: dict[_Role, Worker] = {}
        self._is_prepared = False
        self._rng = Random(setup.seed)

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            f"base ran in {self._base_python.executable} ({self._base_python.text}), head in this one ({self._head_python.text})",
            "two interpreters cannot share a process: each had pages of its own, and smaller changes went unseen than in one process",
        )

    @property
    def is_ready(self) -> bool:
        return self._is_prepared and bool(self._servers) and not any(server.is_closed for server in self._servers.values())

    def close(self) -> None:
        self._open.close()
        self._servers.clear()

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        self._start(candidates)
        self._is_prepared = True

    def renew(self, candidates: Sequence[Candidate]) -> None:
        """Start all servers anew: what a server has of memory its forks have too, and a difference of two servers is in every block."""
        self._start(candidates)

    def _start(self, prepared: Sequence[Candidate]) -> None:
        self.close()
        door = self._open.enter_context(relay([self._base_python.executable], harness=Harness.ALONE))
        for role in self._rng.sample(list(_Role), len(_Role)):
            side = Side.HEAD if role is _Role.HEAD else Side.BASE
            setup = msgspec.structs.replace(
                self._setup,
                specs=() if role is _Role.STAND_IN else self._setup.specs,
                prepared=tuple(one for one in prepared if role in (_Role.HEAD, _role(one, Side.BASE))),
                sides=(side,),
            )
            environment = server_environment(self._setup.conditions.device)
            if role is _Role.BASE:
                environment["PYTHONPATH"] = door
            worker = Worker(setup=_SET_UP, setup_argument=setup, environment=environment, log=self._log)
            self._servers[role] = self._open.enter_context(worker)
        self._require_arms()

    def _require_arms(self) -> None:
        """Raise UsageError for a provider that neither side has."""
        found: dict[str, str | None] = {}
        for role in (_Role.BASE, _Role.HEAD):
            found |= dict(self._servers[role].run(_ABSENCE, None, timeout_s=TIMEOUT_S))
        for base_spec, head_spec in self._setup.specs:
            base, head = found[f"{Side.BASE} {base_spec}"], found[f"{Side.HEAD} {head_spec}"]
            if base is not None and head is not None:
                raise UsageError(f"nothing to compare: {base}; {head}")

    def _server(self, candidate: Candidate, side: Side) -> Worker:
        return self._servers[_role(candidate, side)]

    def check(self, candidate: Candidate) -> tuple[CheckResult, CheckResult]:
        base, head = (self._checked(candidate, side) for side in Side)
        return base, head

    def _checked(self, candidate: Candidate, side: Side) -> CheckResult:
        if not self._servers or any(server.is_closed for server in self._servers.values()):
            self._start(())
        arm = candidate.arm(side)
        task = CheckTask(case=candidate.case, conditions=self._setup.conditions, providers=(arm,), seed=self._setup.seed)
        return checked(self._server(candidate, side), task)[arm]

    def code(self, candidate: Candidate) -> Code:
        """Tell the difference of the files; that they are the same does not make two interpreters the same program."""
        try:
            base, head = (self._account(candidate, side) for side in Side)
        except NormbenchError as error:
            return Code(text=f"the code of the arms was not compared: {error}")
        return Code(text=f"{Difference.between(base.sources, head.sources).text}; each ran in an interpreter of its own")

    def _account(self, candidate: Candidate, side: Side) -> Account:
        # Of the files alone: machine code of two compilers is not compared, whatever the device.
        task = AccountTask(candidate=candidate, arms=(candidate.arm(side),), device="cpu")
        ((_, account),) = self._server(candidate, side).run(_ACCOUNT, task, timeout_s=TIMEOUT_S)
        assert isinstance(account, Account)
        return account

    def block(self, candidate: Candidate, schedule: Schedule, *, seed: int, peak_bytes: int) -> BlockSamples:
        """Take a block; each draw of tensors is in a new pair of forks, because pages are drawn with the process."""
        started_at = datetime.now(UTC).timestamp()
        rng = Random(seed)
        draws = [self._draw(candidate, schedule, rng.randrange(2**31), peak_bytes) for _ in range(schedule.repetitions)]
        return BlockSamples(
            candidate=candidate.id,
            started_at=started_at,
            inner=schedule.inner[candidate.arm(Side.BASE)],
            base_s=tuple(draw[Side.BASE] for draw in draws),
            head_s=tuple(draw[Side.HEAD] for draw in draws),
        )

    def _draw(self, candidate: Candidate, schedule: Schedule, seed: int, peak_bytes: int) -> dict[Side, tuple[float, ...]]:
        # Of two processes with identical code the one that started second was slower by 5 to 8 %.
        rng = Random(seed)
        first, second = rng.sample(list(Side), 2)
        cpu = self._cpu(rng)
        with TemporaryDirectory(prefix="normbench-duet-") as folder:
            address = str(Path(folder) / "turns")

            def begun(side: Side) -> Iterator[Any]:
                task = DuetTask(
                    case=candidate.case,
                    conditions=self._setup.conditions,
                    provider=candidate.arm(side),
                    side=side,
                    seed=seed,
                    peak_bytes=peak_bytes,
                    turns=schedule.turns,
                    inner=schedule.inner[candidate.arm(side)],
                    cpu=cpu,
                    address=address,
                    listens=side is first,
                )
                return self._server(candidate, side).run(_DUET, task, timeout_s=TIMEOUT_S)

            waiting = begun(first)
            try:
                assert next(waiting) == "listens"
            except NormbenchError as error:
                raise NormbenchError(f"{first}: {error}") from error
            return self._collected(candidate, {second: begun(second), first: waiting}, address)

    def _cpu(self, rng: Random) -> int | None:
        """Return a CPU for both sides of a draw: one of them works at a time, and CPUs of a shared machine differ by the minute."""
        known = affinity()
        conditions = self._setup.conditions
        return rng.choice(known) if known and conditions.threads == 1 and conditions.device == "cpu" else None

    def _collected(self, candidate: Candidate, streams: dict[Side, Iterator[Any]], address: str) -> dict[Side, tuple[float, ...]]:
        """Return what both sides measured. Raises NormbenchError that names the side at fault when one of them fails."""
        samples: dict[Side, tuple[float, ...]] = {}
        faults: dict[Side, NormbenchError] = {}
        for side, stream in streams.items():
            if side in faults:
                continue
            try:
                (samples[side],) = stream
            except PartnerSilent as error:
                other = Side.HEAD if side is Side.BASE else Side.BASE
                faults[other] = TaskTimeout(str(error))
                self._server(candidate, other).close()
            except NormbenchError as error:
                faults[side] = error
                release(address)
        if faults:
            # A side that only lost the other is not the one at fault.
            side = min(faults, key=lambda side: isinstance(faults[side], PartnerLost))
            raise NormbenchError(f"{side}: {faults[side]}") from faults[side]
        return samples


def _role(candidate: Candidate, side: Side) -> _Role:
    if side is Side.HEAD:
        return _Role.HEAD
    return _Role.STAND_IN if candidate.is_control else _Role.BASE
