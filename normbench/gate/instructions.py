"""How many instructions a call of either arm takes: a second signal, free of the machine's noise, that informs and decides nothing.

Fewer instructions are not always faster code: memory, vector width and waiting do not show. Of two versions of the same code a change
in instructions is a change in the code.
"""

from __future__ import annotations

import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ..errors import NormbenchError
from ..measure.servers import server_environment
from ..measure.worker import Worker
from .arms import Side
from .counted import CountedTask
from .decide import Verdict
from .interpreter import Harness, Interpreter, relay
from .meters import Meter, find_meter
from .outcome import Instructions, Outcome
from .process import Candidate, Setup

__all__ = ["with_instructions"]

_SET_UP = f"{__package__}.process:set_up_arms"
_COUNTED = f"{__package__}.counted:make_counted_calls"

FEW, MANY = 2, 42
"""Calls of two counts: what surrounds the calls is in both, and goes out with the difference."""

TIMEOUT_S = 600.0
"""How long an arm may take to be ready: under callgrind a compilation of seconds takes minutes."""


def with_instructions(
    outcome: Outcome,
    candidates: Sequence[Candidate],
    setup: Setup,
    *,
    base_python: Interpreter | None,
    log: Path,
    observe: Callable[[str], None],
) -> Outcome:
    """Return the outcome with the instructions of each case that was measured to its end, and notes on how they were counted, or why not.

    `base_python` is base's interpreter where it is not this one. `observe` hears which candidate is next.
    """
    if setup.conditions.device != "cpu":
        return _noted(outcome, "instructions were not counted: those of a GPU's host tell nothing of its kernels")
    with ExitStack() as stack:
        meter, reason = find_meter(Path(stack.enter_context(TemporaryDirectory(prefix="normbench-counts-"))))
        if meter is None:
            return _noted(outcome, f"instructions were not counted: {reason}")
        # Where the machine is too noisy for times, this may be all there is to be seen.
        measured = {one.case for one in outcome.cases if one.decision.verdict.is_compared or one.decision.verdict is Verdict.NOT_GATEABLE}
        chosen = [one for one in candidates if one.id in measured]
        if not chosen:
            return outcome
        try:
            servers = _started(stack, setup, meter, base_python, log)
        except NormbenchError as error:
            return _noted(outcome, f"instructions were not counted by {meter.name}: {error}")
        found: dict[str, Instructions] = {}
        notes: dict[str, None] = {}
        for candidate in chosen:
            observe(candidate.id)
            try:
                counts = {side: _counted(servers[side], candidate, side, setup, meter) for side in Side}
            except NormbenchError as error:
                notes[f"the instructions of {candidate.id} were not counted: {error}"] = None
                continue
            found[candidate.id] = Instructions(base=counts[Side.BASE][0], head=counts[Side.HEAD][0])
            paths = " and ".join(dict.fromkeys(path for _, path in counts.values()))
            notes[f"instructions a call were counted by {meter.name}, on PyTorch's {paths} path; they decide nothing"] = None
    cases = tuple(msgspec.structs.replace(one, instructions=found.get(one.case)) for one in outcome.cases)
    return _noted(msgspec.structs.replace(outcome, cases=cases), *notes)


def _noted(outcome: Outcome, *notes: str) -> Outcome:
    return msgspec.structs.replace(outcome, notes=(*outcome.notes, *notes))


def _started(stack: ExitStack, setup: Setup, meter: Meter, base_python: Interpreter | None, log: Path) -> dict[Side, Worker]:
    """Start the servers whose forks are counted: one for both sides, or one for each where base has an interpreter of its own."""

    def server(python: str, harness: Harness, *sides: Side) -> Worker:
        environment = server_environment(setup.conditions.device)
        if meter.command or harness is Harness.ALONE:
            environment["PYTHONPATH"] = stack.enter_context(relay([*meter.command, python], harness=harness))
        chosen = msgspec.structs.replace(setup, sides=sides, prepared=())
        return stack.enter_context(Worker(setup=_SET_UP, setup_argument=chosen, environment=environment, log=log))

    if base_python is None:
        return dict.fromkeys(Side, server(sys.executable, Harness.WITH_PACKAGES, *Side))
    return {
        Side.BASE: server(base_python.executable, Harness.ALONE, Side.BASE),
        Side.HEAD: server(sys.executable, Harness.WITH_PACKAGES, Side.HEAD),
    }


def _counted(server: Worker, candidate: Candidate, side: Side, setup: Setup, meter: Meter) -> tuple[float, str]:
    """Return the instructions of one call of an arm, and the instruction set that PyTorch chose in its process."""
    if server.is_closed:
        raise NormbenchError("the process that they were counted in had to be ended")
    with TemporaryDirectory(prefix="normbench-counted-") as folder, socket.socket(socket.AF_UNIX) as door:
        address = str(Path(folder) / "orders")
        door.bind(address)
        door.listen(1)
        task = CountedTask(case=candidate.case, conditions=setup.conditions, provider=candidate.arm(side), seed=setup.seed, address=address)
        answers = server.run(_COUNTED, task, timeout_s=TIMEOUT_S)
        pid, path = next(answers)
        orders, _ = door.accept()
        totals = []
        with orders:
            for calls in (FEW, MANY):
                meter.start(pid)
                orders.sendall(calls.to_bytes(8, "big"))
                next(answers)
                totals.append(meter.stop(pid))
        # It ends with its orders; a server runs one task at a time.
        deque(answers, maxlen=0)
    few, many = totals
    return (many - few) / (MANY - FEW), path
