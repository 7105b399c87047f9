"""Another Python for base, so that two versions of PyTorch can be compared: what it has, and how it comes to measure."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ..errors import UsageError
from ..host.machine import versions_of
from ..measure.worker import import_path

__all__ = ["Harness", "Interpreter", "find_interpreter", "relay", "running_interpreter"]

REQUIRED = ("torch", "numpy", "scipy", "msgspec", "psutil")
"""What the measuring process imports besides Python's own library; each is installed under the name it is imported by."""

VERSIONED = ("torch", "triton", "numpy")
"""Packages whose version can change a number, and what an interpreter is told apart by."""

OLDEST = (3, 11)

_MISLEADING = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__")
"""Variables that tell this Python where its modules are."""

_PROBE_TIMEOUT_S = 60

_PROBE = """
import json, sys
found = {"python": list(sys.version_info[:3]), "lacking": [], "versions": {}}
if sys.version_info >= (3, 8):
    import importlib.metadata, importlib.util
    found["lacking"] = [name for name in %r if importlib.util.find_spec(name) is None]
    for name in %r:
        try:
            found["versions"][name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found["versions"][name] = None
print(json.dumps(found))
"""
"""What is asked of a Python that may be of any age."""


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """Name a Python and the versions that measurements depend on; a package that it lacks is None."""

    executable: str
    python: str
    versions: dict[str, str | None]

    @property
    def text(self) -> str:
        """Return all versions in a clause for people."""
        packages = [f"{name} {version}" for name, version in self.versions.items() if version is not None]
        return ", ".join((f"Python {self.python}", *packages))


class _Found(msgspec.Struct):
    python: tuple[int, ...]
    lacking: list[str]
    versions: dict[str, str | None]


def running_interpreter() -> Interpreter:
    """Return the Python that runs this."""
    return Interpreter(executable=sys.executable, python=platform.python_version(), versions=versions_of(VERSIONED))


def find_interpreter(path: Path) -> Interpreter:
    """Return the Python at a path. Raises UsageError where there is none, it is too old, or it lacks a package."""
    # Not resolved: the link by which a virtual environment is called is what makes it one.
    executable = os.path.abspath(path)
    if not os.path.isfile(executable):
        raise UsageError(f"--base-python {str(path)!r} is not a file: give the path of a Python, such as .venv/bin/python")
    try:
        done = subprocess.run(
            [executable, "-c", _PROBE % (REQUIRED, VERSIONED)],
            env=_own_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
        )
        found = msgspec.json.decode(done.stdout, type=_Found)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        raise UsageError(f"--base-python {str(path)!r} does not run as a Python ({error}): give the path of one") from None
    version = ".".join(map(str, found.python))
    if found.python[:2] < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise UsageError(f"--base-python {str(path)!r} is Python {version}, and what measures needs {needed}: give a newer one")
    if found.lacking:
        raise UsageError(
            f"--base-python {str(path)!r} lacks {', '.join(found.lacking)}, which what measures needs: "
            f"{executable} -m pip install {' '.join(found.lacking)}"
        )
    return Interpreter(executable=executable, python=version, versions=found.versions)


_RELAY = """\
import os
import sys

environment = {{name: value for name, value in os.environ.items() if name not in {misleading!r}}}
try:
    os.execve({command!r}[0], [*{command!r}, *sys.orig_argv[1:]], environment | {{"PYTHONPATH": {path!r}}})
finally:
    # What Python does about an error here is to go on.
    os._exit(127)
"""


class Harness(StrEnum):
    """Say what a relayed Python finds: this normbench alone, or all that this Python does."""

    ALONE = "alone"
    WITH_PACKAGES = "with packages"


@contextmanager
def relay(command: Sequence[str], *, harness: Harness) -> Iterator[str]:
    """Yield a folder: a Python that has it as PYTHONPATH when it starts becomes this command, with the arguments that it was given."""
    with TemporaryDirectory(prefix="normbench-relay-") as folder:
        package = Path(__file__).resolve().parents[1]
        home, door = Path(folder, "harness"), Path(folder, "door")
        home.mkdir()
        door.mkdir()
        (home / package.name).symlink_to(package, target_is_directory=True)
        path = str(home) if harness is Harness.ALONE else import_path()
        (door / "sitecustomize.py").write_text(_RELAY.format(misleading=_MISLEADING, command=list(command), path=path))
        yield str(door)


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _MISLEADING}
