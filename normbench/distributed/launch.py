"""Start torchrun on this machine and see it through: one command starts all ranks, and none is left when it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from ..errors import UsageError
from ..measure.worker import import_path

__all__ = ["choose_port", "launch"]

_MOST_PORTS = 2**16

_EXIT_INTERRUPTED = 130

_LEAVE_S = 40.0
"""How long the ranks may take to leave: torchrun itself kills after 30 s those that do not."""


def choose_port(port: int | None) -> int:
    """Return a port at which ranks can meet: `port`, or a free one. Raises UsageError for a port that is in use or is none."""
    if port is not None and not 0 < port < _MOST_PORTS:
        raise UsageError(f"port {port} is not between 1 and {_MOST_PORTS - 1}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # On all addresses, as torchrun does.
            probe.bind(("", port or 0))
            probe.listen()
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}): choose another with --port, or leave it out for a free one"
            ) from None
        chosen: int = probe.getsockname()[1]
    return chosen


def launch(words: Sequence[str], *, processes: int, threads: int, port: int | None) -> int:
    """Have torchrun start `python -m normbench.throughput` with these words so many times, and return rank 0's exit code.

    Ctrl-C is passed on, and rank 0 says what became of it. Raises UsageError for a port in use.
    """
    package = __package__.rpartition(".")[0]
    command = [sys.executable, "-P", "-m", f"{__package__}.agent", str(os.getpid())]
    command += ["--nnodes", "1", "--nproc-per-node", str(processes), "--master-addr", "127.0.0.1", "--master-port", str(choose_port(port))]
    command += ["-m", f"{package}.throughput", *words]
    # Ranks import what this process would, and no file of the working directory in place of a module of the standard library.
    environment = {**os.environ, "PYTHONPATH": import_path(), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": str(threads)}
    # A session of its own: Ctrl-C is for this process, which passes it on once.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LEAVE_S)
        return _EXIT_INTERRUPTED
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
