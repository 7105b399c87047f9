"""The fork servers of one run: the one that measures, and the one in which Triton is its own interpreter. Started when needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .pages import WITHOUT_THREAD_CACHE
from .worker import Worker

__all__ = ["Servers", "server_environment"]

_SETUP = f"{__package__}.process:set_up_server"


def server_environment(device: str) -> dict[str, str]:
    """Return what a process that measures on a device needs in its environment, set before torch is imported."""
    # Compiling in worker processes of its own would outlive the task that asked for it.
    environment = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if device == "cpu":
        # With a GPU in sight autograd starts threads, and threads do not survive a fork.
        environment["CUDA_VISIBLE_DEVICES"] = ""
        environment |= WITHOUT_THREAD_CACHE
    return environment


class Servers:
    """Run tasks in forks of a server that has the providers loaded. `device` is the name of a torch device."""

    def __init__(self, providers: Sequence[str], *, device: str, log: Path, timeout_s: float) -> None:
        self._providers = tuple(providers)
        self._log = log
        self._timeout_s = timeout_s
        self._open = ExitStack()
        self._workers: dict[bool, Worker] = {}
        self._environment = server_environment(device)

    def run(self, task: str, argument: Any, *, interpreter: bool = False) -> Iterator[Any]:
        """Run `module:function` in a fresh fork and yield what it emits; with `interpreter`, where Triton interprets its kernels."""
        return self._worker(interpreter).run(task, argument, timeout_s=self._timeout_s)

    def _worker(self, interpreter: bool) -> Worker:
        worker = self._workers.get(interpreter)
        if worker is None or worker.is_closed:
            worker = self._workers[interpreter] = self._start(interpreter)
        return worker

    def prepare(self, task: str, argument: Any) -> None:
        """Run `module:function(argument)` in the server itself, so that all later forks have what it leaves behind."""
        self._worker(interpreter=False).prepare(task, argument, timeout_s=self._timeout_s)

    def _start(self, interpreter: bool) -> Worker:
        # Triton decides when it is imported, so its interpreter needs a server of its own.
        environment = {**self._environment, "TRITON_INTERPRET": "1"} if interpreter else self._environment
        return self._open.enter_context(Worker(setup=_SETUP, setup_argument=self._providers, environment=environment, log=self._log))

    def close(self) -> None:
        """End the servers and whatever they run."""
        self._open.close()
        self._workers.clear()
