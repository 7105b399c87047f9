"""What the worker's tests run in its processes; nothing here needs torch."""

from __future__ import annotations

import os
import signal
import sys
import time

from normbench.errors import NormbenchError, UsageError
from normbench.measure.worker import TaskDied

seen: list[object] = []
"""Filled by `remember`: a task that finds something here shares a process with an earlier one."""


class ForeignError(Exception):
    """An exception whose constructor pickle cannot call again."""

    def __init__(self, one, two) -> None:
        super().__init__(f"{one} and {two}")


def nothing(argument) -> None:
    pass


def remember(argument) -> None:
    seen.append(argument)
    # Left in the buffer of standard output on purpose.
    sys.stdout.write("set up once\n")


def tell_seen(argument, emit) -> None:
    emit(seen)


def refuse(argument) -> None:
    raise UsageError(f"no {argument}")


def fail_setup(argument) -> None:
    raise ForeignError(argument, "more")


def die_in_setup(argument) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def emit_each(argument, emit) -> None:
    for value in argument:
        emit(value)


def emit_identity(argument, emit) -> None:
    emit((os.getpid(), list(seen)))
    seen.append(argument)


def emit_environment(argument, emit) -> None:
    emit({name: os.environ.get(name) for name in argument})


def emit_path(argument, emit) -> None:
    emit(sys.path)


def say(argument, emit) -> None:
    sys.stdout.write(f"{argument} to stdout\n")
    sys.stderr.write(f"{argument} to stderr\n")


def raise_named(argument, emit) -> None:
    emit("before")
    raise {
        "ValueError": ValueError("bad value"),
        "empty": KeyError(),
        "SystemExit": SystemExit(3),
        "unpicklable": ForeignError("one", "two"),
        "NormbenchError": NormbenchError("ours"),
        "UsageError": UsageError("ours too"),
        "TaskDied": TaskDied("how", 11),
    }[argument]


def emit_unpicklable(argument, emit) -> None:
    emit(lambda: None)


def die(argument, emit) -> None:
    emit("before")
    os.kill(os.getpid(), argument)


def exit_with(argument, emit) -> None:
    emit("before")
    os._exit(argument)


def sleep(argument, emit) -> None:
    emit(os.getpid())
    time.sleep(argument)


def kill_server(argument, emit) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
