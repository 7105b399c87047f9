"""The two source trees of a gate: a git ref checked out into a temporary worktree, or a folder as it lies there.

Nothing here goes through a shell, and the user's own work tree, index, HEAD and stash are only ever read.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ..errors import NormbenchError, UsageError

__all__ = ["Tree", "checked_out", "folder_tree", "remove_abandoned"]

_PREFIX = "normbench-base-"
_LOCK = "lock"
_WORKTREE = "tree"
_SHORT = 12

_MISLEADING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")
"""Variables that git sets for its hooks: with them a gate run from one would write into the index that is being committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A folder of sources and what to call it.

    `root` is where paths of providers begin and `top` the top folder of the checkout that it lies in, often the same. `label` names the
    ref and its commit, or the folder. `commit` is None outside a git repository. `notes` say what the tree lacks.
    """

    root: Path
    top: Path
    label: str
    commit: str | None = None
    notes: tuple[str, ...] = ()


def folder_tree(folder: Path) -> Tree:
    """Return the tree of a folder as it lies there, uncommitted changes included. Raises UsageError if there is no such folder."""
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder: give the top folder of a checkout")
    root = folder.resolve()
    top, commit = _read(root, "rev-parse", "--show-toplevel"), _read(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if top is None or commit is None:
        return Tree(root=root, top=root, label=str(folder))
    # Importing a module leaves compiled files behind; they are nobody's change.
    changes = _read(root, "status", "--porcelain", "--", ":/", ":(top,exclude,glob)**/__pycache__/**")
    dirty = " + uncommitted changes" if changes else ""
    return Tree(root=root, top=Path(top), label=f"{folder} at {commit[:_SHORT]}{dirty}", commit=commit)


@contextmanager
def checked_out(ref: str, *, repository: Path) -> Iterator[Tree]:
    """Check a branch, tag or commit out into a temporary worktree, and remove it at the end, whatever the end is.

    `repository` is any folder of a git checkout, a linked worktree and a shallow clone too; the folder of the same name is the root of
    the tree. Submodules are not fetched, which `notes` say. An exception, Ctrl-C and SIGTERM remove the worktree; what a killed process
    left behind, the next call removes. Raises UsageError for a ref that cannot be resolved and where there is no git repository.
    """
    top = _toplevel(repository)
    commit = _resolve(ref, top)
    remove_abandoned(top)
    prefix = repository.resolve().relative_to(top)
    owner = os.getpid()
    with _ended_by_signals():
        parent = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        lock = os.open(parent / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            worktree = parent / _WORKTREE
            # A hook of the user's has no business in a checkout that nobody works in.
            arguments = ("-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", "--quiet", "--", str(worktree), commit)
            done = _git(top, arguments)
            if done.returncode != 0:
                raise NormbenchError(f"git cannot check {ref!r} out into {worktree}: {_complaint(done)}")
            root = worktree / prefix
            if not root.is_dir():
                raise UsageError(f"{ref!r} has no folder {str(prefix)!r}: run from a folder that both versions have, such as {top}")
            label = commit[:_SHORT] if commit.startswith(ref) else f"{ref} at {commit[:_SHORT]}"
            yield Tree(root=root, top=worktree, label=label, commit=commit, notes=_submodule_notes(worktree))
        finally:
            # A forked child that unwinds must leave its parent the tree.
            if os.getpid() == owner:
                _remove(parent, top)
            os.close(lock)


def remove_abandoned(repository: Path) -> list[Path]:
    """Remove the worktrees whose process was killed before it could, and return them; those in use and all others stay."""
    removed = []
    for line in (_read(repository, "worktree", "list", "--porcelain") or "").splitlines():
        worktree = Path(line.removeprefix("worktree "))
        if not line.startswith("worktree ") or worktree.name != _WORKTREE or not worktree.parent.name.startswith(_PREFIX):
            continue
        if not _is_in_use(worktree.parent):
            _remove(worktree.parent, repository)
            removed.append(worktree)
    return removed


def _is_in_use(parent: Path) -> bool:
    """Say whether a live process holds the lock of a temporary folder: the kernel lets go of it when the process ends."""
    try:
        lock = os.open(parent / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # Where the folder is gone, only git remembers it; where it is not, it belongs to another user.
        return parent.exists()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _remove(parent: Path, repository: Path) -> None:
    """Remove a worktree and its temporary folder. Never `git worktree prune`: it would forget the user's on an unplugged disk as well."""
    worktree = parent / _WORKTREE
    remove = ("worktree", "remove", "--force", "--force", "--", str(worktree))
    if _git(repository, remove).returncode != 0:
        # Half made, or damaged: git refuses to look into it, yet forgets one that is not there any more.
        shutil.rmtree(worktree, ignore_errors=True)
        _git(repository, remove)
    shutil.rmtree(parent, ignore_errors=True)


def _toplevel(repository: Path) -> Path:
    if not repository.is_dir():
        raise UsageError(f"{str(repository)!r} is not a folder: run in a checkout")
    done = _git(repository, ("rev-parse", "--show-toplevel"))
    if done.returncode != 0:
        raise UsageError(f"no base can be taken from git in {repository}: {_complaint(done)}; run in a checkout, or give --base-dir")
    return Path(done.stdout.rstrip("\n")).resolve()


def _resolve(ref: str, repository: Path) -> str:
    if not ref or ref.startswith("-") or "\0" in ref:
        raise UsageError(f"{ref!r} is not a git ref: give a branch, a tag or a commit, such as main, v1.2 or HEAD~1")
    commit = _commit(ref, repository)
    if commit is None:
        raise UsageError(f"git ref {ref!r} is unknown in {repository}: {_remedy(ref, repository)}")
    return commit


def _commit(ref: str, repository: Path) -> str | None:
    return _read(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")


def _remedy(ref: str, repository: Path) -> str:
    for remote in (_read(repository, "remote") or "").splitlines():
        if _commit(f"refs/remotes/{remote}/{ref}", repository):
            return f"give {remote}/{ref}, which is known"
    if _read(repository, "rev-parse", "--is-shallow-repository") == "true":
        return "this clone is shallow; fetch it with `git fetch --unshallow` (in GitHub Actions: actions/checkout with fetch-depth: 0)"
    return "check its spelling, or fetch it first; `git branch --all` and `git tag` list what there is"


def _submodule_notes(worktree: Path) -> tuple[str, ...]:
    if not (worktree / ".gitmodules").is_file():
        return ()
    entries = (_read(worktree, "ls-files", "--stage", "-z") or "").split("\0")
    paths = [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]
    return tuple(f"submodule {path} is empty in this tree: submodules are not checked out" for path in paths)


def _read(folder: Path, *arguments: str) -> str | None:
    """Return what a git command prints, or None where it fails or git is not installed."""
    with suppress(UsageError):
        done = _git(folder, arguments)
        if done.returncode == 0:
            return done.stdout.rstrip("\n")
    return None


def _git(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
            # Ctrl-C is for this process, which lets git finish what it removes.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise UsageError("git is not installed: install it, or give the base as a folder with --base-dir") from None


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(done.stderr.split()).removeprefix("fatal: ") or f"git ended with status {done.returncode}"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that what stands in `finally` is done; handlers that somebody set stay theirs."""
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    # Handlers can be set in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    for number in numbers:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    # The status that a shell reports for a process which a signal ended.
    raise SystemExit(128 + number)
