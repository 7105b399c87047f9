"""A server that runs every task in a fresh fork of one clean process.

The server imports torch and the providers once and never computes anything; each task (a check, a block of turns) runs in a forked
child. So tasks cost no import, cannot see each other's compiled functions, heap or crashes, and a kernel that takes its process down
takes down nothing else. Nothing here is about norms: a task is a module-level function named by `module:function`.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from ..errors import NormbenchError

__all__ = ["TaskDied", "TaskTimeout", "Worker", "die_with", "import_path", "resolved"]

_PR_SET_PDEATHSIG = 1
_EXIT_TOLD = 86
"""Exit code of a task that has told how it ended; any other, 0 too, means that it died."""

Emit = Callable[[Any], None]


class TaskDied(NormbenchError):
    """Report that a task's process ended before its work did."""

    def __init__(self, how: str, signal_number: int | None = None) -> None:
        super().__init__(how)
        self.signal_number = signal_number


class TaskTimeout(NormbenchError):
    """Report that a task said nothing for longer than it may."""


class Worker:
    """Run tasks one at a time, each in its own process. Close it, or use it as a context manager.

    `setup` is a `module:function` that runs once in the server itself, with `setup_argument`; what it raises is raised here.
    `environment` is laid over this process's own. `log` receives what tasks print.
    """

    def __init__(self, *, setup: str, setup_argument: Any, environment: dict[str, str], log: Path) -> None:
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        self._log = log
        self._serial = 0
        with theirs, log.open("ab") as sink:
            self._process = subprocess.Popen(
                # -P: a file in the working directory must not stand in for a module of the standard library.
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, "PYTHONPATH": import_path(), **environment},
                # Ctrl-C is for the process that keeps the records; it ends the tasks itself.
                start_new_session=True,
            )
        try:
            self._send(setup, setup_argument)
            kind, value = self._receive(timeout_s=None)
            self._finish(kind, value)
        except BaseException:
            self.close()
            raise

    @property
    def is_closed(self) -> bool:
        """Say whether the server is known to be gone: closed, timed out, or ended by itself."""
        return self._connection.closed

    def run(self, task: str, argument: Any, *, timeout_s: float) -> Iterator[Any]:
        """Run `module:function(argument, emit)` in a fresh process and yield what it emits, as it comes.

        Raises TaskDied when the process ends early, TaskTimeout when nothing comes for `timeout_s`, and what the task raises as a
        NormbenchError. After a timeout the worker is closed. A task whose iterator is left before its end runs on, and the next one
        waits for it.
        """
        self._serial += 1
        self._send(task, argument)
        while True:
            kind, value = self._receive(timeout_s)
            if kind != "emit":
                self._finish(kind, value)
                return
            yield value

    def prepare(self, task: str, argument: Any, *, timeout_s: float) -> None:
        """Run `module:function(argument)` in the server itself, so that all later tasks have what it leaves behind.

        It may compute: it runs in a thread of its own, and the pool of threads that OpenMP makes for it ends with that one, while one
        made for the server's own thread would hang every fork of it. Raises as `run` does; a crash takes the server down.
        """
        self._serial += 1
        self._send(task, argument, resident=True)
        self._finish(*self._receive(timeout_s))

    def _send(self, function: str, argument: Any, *, resident: bool = False) -> None:
        try:
            self._connection.send((self._serial, function, argument, resident))
        except OSError:
            self._give_up()

    def _receive(self, timeout_s: float | None) -> tuple[str, Any]:
        """Return kind and value of the next message of the task that runs now; what is left of earlier ones is dropped."""
        serial = -1
        while serial != self._serial:
            if not self._connection.poll(timeout_s):
                self.close()
                raise TaskTimeout(f"no answer for {timeout_s:g} s")
            try:
                serial, kind, value = self._connection.recv()
            except (EOFError, ConnectionError):
                self._give_up()
        return kind, value

    def _give_up(self) -> NoReturn:
        self.close()
        raise NormbenchError(f"the measuring process ended unexpectedly; its output is in {self._log}") from None

    @staticmethod
    def _finish(kind: str, value: Any) -> None:
        """Raise what the last message of a task stands for, if anything."""
        if kind == "died":
            raise TaskDied(*value)
        if kind == "raised":
            raise value
        assert kind == "done", kind

    def close(self) -> None:
        """End the server and whatever task it runs."""
        if self._process.returncode is None:
            # The server leads a group of its own, and until it is waited for no other process can have its number.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._connection.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def resolved(name: str) -> Callable[..., Any]:
    """Return the function that `module:function` names, its module imported if it was not yet."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _portable(error: BaseException) -> NormbenchError:
    """Return an exception that can cross processes: our own kind as it is, any other as its text."""
    if type(error).__module__.startswith(__package__.rpartition(".")[0] + ".") and isinstance(error, NormbenchError):
        return error
    return NormbenchError(f"{type(error).__name__}: {error}")


def import_path() -> str:
    """Return this process's own import path in the form of PYTHONPATH, so that a child imports what this process would.

    The empty entry, by which an interactive Python or `python -c` means the working directory, is left out: a file there must not
    stand in for a module of the standard library.
    """
    return os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends, and end it when that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _run_task(connection: Connection, server: int, serial: int, task: str, argument: Any) -> NoReturn:
    die_with(server)
    try:
        resolved(task)(argument, lambda value: connection.send((serial, "emit", value)))
    except BaseException as error:
        traceback.print_exc()
        connection.send((serial, "raised", _portable(error)))
    else:
        connection.send((serial, "done", None))
    # _exit skips interpreter shutdown, which would run the server's own exit handlers a second time.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_EXIT_TOLD)


def _run_apart(task: str, argument: Any) -> tuple[str, Any]:
    """Run a function in a thread that ends with it and return how that went; see `Worker.prepare`."""
    outcome: list[tuple[str, Any]] = []

    def work() -> None:
        try:
            resolved(task)(argument)
        except BaseException as error:
            traceback.print_exc()
            outcome.append(("raised", _portable(error)))
        else:
            outcome.append(("done", None))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return outcome[0]


def _how_it_ended(status: int) -> tuple[str, int | None]:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"the process exited with code {code}", None
    hint = " (most likely out of memory)" if -code == signal.SIGKILL else ""
    return f"the process was killed by signal {-code}, {signal.Signals(-code).name}{hint}", -code


def _serve(connection: Connection, parent: int) -> None:
    die_with(parent)
    serial, setup, argument, _ = connection.recv()
    try:
        resolved(setup)(argument)
    except BaseException as error:
        traceback.print_exc()
        connection.send((serial, "raised", _portable(error)))
        return
    connection.send((serial, "done", None))
    server = os.getpid()
    while True:
        try:
            serial, task, argument, resident = connection.recv()
        except EOFError:
            return
        if resident:
            connection.send((serial, *_run_apart(task, argument)))
            continue
        # What waits in a buffer here would be in every child's too, and be printed by each of them.
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _run_task(connection, server, serial, task, argument)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != _EXIT_TOLD:
            connection.send((serial, "died", _how_it_ended(status)))


if __name__ == "__main__":
    # `-m` runs this file under another name; serve from the module that tasks import, so that there is one copy of it.
    importlib.import_module(f"{__package__}.worker")._serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
