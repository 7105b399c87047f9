"""Who counts a process's instructions: the processor itself, asked through perf, or valgrind's callgrind, which plays the processor."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Protocol

from ..errors import NormbenchError

__all__ = ["Callgrind", "Meter", "Perf", "find_meter"]

_TIMEOUT_S = 60
_PERF = ("stat", "-x", ",", "-e", "instructions:u")


class Meter(Protocol):
    """Count the instructions that a process executes between `start` and `stop`, outside the kernel.

    `name` says how, for people. `command` is what the process has to be started by, before its own words.
    """

    name: str
    command: tuple[str, ...]

    def start(self, pid: int) -> None: ...

    def stop(self, pid: int) -> int: ...


def find_meter(folder: Path) -> tuple[Meter | None, str]:
    """Return what counts here and no reason, or None and the reason. `folder` may be written to as long as the meter is used."""
    perf, perf_reason = _perf()
    if perf is not None:
        return perf, ""
    valgrind, vgdb = shutil.which("valgrind"), shutil.which("vgdb")
    if valgrind is not None and vgdb is not None:
        return Callgrind(valgrind=valgrind, vgdb=vgdb, folder=folder), ""
    return None, f"{perf_reason}, and valgrind is not installed: on Debian, apt-get install valgrind"


def _perf() -> tuple[Meter | None, str]:
    path = shutil.which("perf")
    if path is None:
        return None, "perf is not installed"
    done = subprocess.run([path, *_PERF, "true"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    try:
        _count(done.stderr)
    except NormbenchError as error:
        return None, str(error)
    return Perf(path), ""


def _count(text: str) -> int:
    """Read what `perf stat -x ,` prints of one event. Raises NormbenchError with its own words when it counted nothing."""
    match = re.search(r"^(\d+),[^,]*,instructions", text, re.MULTILINE)
    if match is None:
        said = " ".join(text.split())[:200]
        raise NormbenchError(f"perf counts no instructions here ({said})")
    return int(match[1])


class Perf:
    """Read the processor's own counter: every instruction set counts as it runs, at full speed."""

    name = "perf (the processor's counter)"
    command: tuple[str, ...] = ()

    def __init__(self, path: str) -> None:
        self._path = path

    def start(self, pid: int) -> None:
        order, self._order = os.pipe()
        self._answer, answer = os.pipe()
        self._process = subprocess.Popen(
            [self._path, *_PERF, "-p", str(pid), "-D", "-1", "--control", f"fd:{order},{answer}"],
            pass_fds=(order, answer),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(order)
        os.close(answer)
        if not self._obeyed(b"enable\n"):
            raise NormbenchError(f"perf does not count process {pid}: {self._ended()}")

    def stop(self, pid: int) -> int:
        is_counted = self._obeyed(b"disable\n")
        said = self._ended()
        if not is_counted:
            raise NormbenchError(f"perf stopped counting process {pid}: {said}")
        return _count(said)

    def _obeyed(self, order: bytes) -> bool:
        """Give an order and wait until it is carried out; perf that has ended does neither read nor answer."""
        try:
            os.write(self._order, order)
        except BrokenPipeError:
            return False
        return bool(os.read(self._answer, 64))

    def _ended(self) -> str:
        """Have perf print what it counted, and return that."""
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=_TIMEOUT_S)
        os.close(self._order)
        os.close(self._answer)
        return " ".join(said.split())[:200]


class Callgrind:
    """Have valgrind execute the process and count. It knows AVX2 and hides AVX-512, so that code that asks takes its AVX2 path.

    `folder` receives its counts. Until it counts, the process is some 10 times slower than by itself, and then some 50 times.
    """

    name = "callgrind (which hides AVX-512)"

    def __init__(self, *, valgrind: str, vgdb: str, folder: Path) -> None:
        self._vgdb = vgdb
        self._folder = folder
        self.command: tuple[str, ...] = (
            *(valgrind, "-q", "--tool=callgrind", "--instr-atstart=no"),
            # Forks can be reached only where children are traced, and programs that they start are none of ours.
            *("--trace-children=yes", "--trace-children-skip=*"),
            f"--callgrind-out-file={folder / 'counts.%p'}",
        )

    def start(self, pid: int) -> None:
        self._tell(pid, "instrumentation", "on")
        self._tell(pid, "zero")

    def stop(self, pid: int) -> int:
        self._tell(pid, "dump")
        written = max(self._folder.glob(f"counts.{pid}.*"), key=lambda path: int(path.suffix[1:]), default=None)
        match = None if written is None else re.search(r"^totals: (\d+)", written.read_text(), re.MULTILINE)
        if match is None:
            raise NormbenchError(f"callgrind wrote no count of process {pid} into {self._folder}")
        return int(match[1])

    def _tell(self, pid: int, *words: str) -> None:
        done = subprocess.run([self._vgdb, f"--pid={pid}", *words], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise NormbenchError(f"vgdb cannot reach process {pid}: {' '.join(done.stderr.split())[:200]}")
