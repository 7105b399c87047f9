"""Base comes from git without a trace in the user's checkout, whatever ends the gate."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from normbench.errors import UsageError
from normbench.gate.trees import Tree, checked_out, folder_tree, remove_abandoned

from .repositories import commit, git

HOLD = """
import os, sys, signal
from pathlib import Path
from normbench.gate.trees import checked_out
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it comes ignored
with checked_out("main", repository=Path(sys.argv[1])) as tree:
    print(tree.root, flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Keep the worktrees of a test in a folder of its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def repository(tmp_path):
    """A repository of two commits, `old` and `main`, with a change that is staged and one that is not."""
    folder = tmp_path / "repository"
    commit(folder, {"kernel.py": "VERSION = 1\n", "perf/case.py": ""})
    git(folder, "tag", "old")
    commit(folder, {"kernel.py": "VERSION = 2\n"})
    (folder / "staged.py").write_text("")
    git(folder, "add", "staged.py")
    (folder / "kernel.py").write_text("VERSION = 3\n")
    return folder


def state(repository: Path) -> tuple[object, ...]:
    """Return all that a gate must leave alone: the files, the index, HEAD, every ref, the worktrees and the stash."""
    index = Path(git(repository, "rev-parse", "--path-format=absolute", "--git-path", "index"))
    readings = (("status", "--porcelain"), ("rev-parse", "HEAD"), ("for-each-ref",), ("worktree", "list"), ("stash", "list"))
    return index.read_bytes(), (repository / "kernel.py").read_text(), *(git(repository, *reading) for reading in readings)


def worktrees(repository: Path) -> int:
    return git(repository, "worktree", "list").count("\n") + 1


def hold(repository: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that keeps a tree checked out, and return it and the tree."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(repository)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as told:
        return process, Path(told.readline().strip())


def test_a_ref_is_checked_out_beside_the_user_s_own_work(repository, temporary):
    before = state(repository)
    with checked_out("old", repository=repository) as tree:
        assert (tree.root / "kernel.py").read_text() == "VERSION = 1\n"
        assert tree.root.is_relative_to(temporary)
        assert (repository / "kernel.py").read_text() == "VERSION = 3\n"
        assert tree == Tree(root=tree.root, top=tree.root, label=f"old at {tree.commit[:12]}", commit=git(repository, "rev-parse", "old"))
    assert state(repository) == before
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("ref", ["main", "old", "HEAD~1", "refs/tags/old", "@"])
def test_whatever_git_resolves_to_a_commit_is_a_ref(repository, ref):
    with checked_out(ref, repository=repository) as tree:
        assert tree.commit == git(repository, "rev-parse", ref)


def test_a_commit_is_called_by_itself(repository):
    full = git(repository, "rev-parse", "old")
    with checked_out(full, repository=repository) as tree:
        assert tree.label == full[:12]


@pytest.mark.parametrize(
    "ref",
    [
        pytest.param("--force", id="an option of git"),
        pytest.param("-q", id="a short one"),
        pytest.param("", id="nothing"),
        pytest.param("a\0b", id="what cannot be an argument"),
    ],
)
def test_what_is_no_ref_is_refused(repository, ref):
    with pytest.raises(UsageError, match="is not a git ref: give a branch"), checked_out(ref, repository=repository):
        pytest.fail("was checked out")


@pytest.mark.parametrize("ref", ["gone", "main:kernel.py", "$(touch owned)", "main; touch owned", "main..old"])
def test_an_unknown_ref_is_refused_and_never_run(repository, ref, monkeypatch):
    monkeypatch.chdir(repository)
    with pytest.raises(UsageError, match=r"git ref .* is unknown in .*: check its spelling"), checked_out(ref, repository=repository):
        pytest.fail("was checked out")
    assert not (repository / "owned").exists()


def test_an_unknown_ref_that_a_remote_has_is_named(repository, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    git(clone, "checkout", "--quiet", "-b", "work")
    git(clone, "branch", "--quiet", "-D", "main")
    with pytest.raises(UsageError, match=r"'main' is unknown .* give origin/main, which is known"), checked_out("main", repository=clone):
        pytest.fail("was checked out")


def test_a_shallow_clone_has_the_commits_it_has_and_says_how_to_get_more(repository, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(clone))
    with checked_out("HEAD", repository=clone) as tree:
        assert (tree.root / "kernel.py").read_text() == "VERSION = 2\n"
    with pytest.raises(UsageError, match="shallow; fetch it with `git fetch --unshallow`"), checked_out("HEAD~1", repository=clone):
        pytest.fail("was checked out")


def test_a_linked_worktree_is_a_repository_too(repository, tmp_path):
    git(repository, "worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"), "old")
    before = state(tmp_path / "linked")
    with checked_out("main", repository=tmp_path / "linked") as tree:
        assert (tree.root / "kernel.py").read_text() == "VERSION = 2\n"
    assert state(tmp_path / "linked") == before


def test_submodules_are_not_populated_and_that_is_said(repository, tmp_path):
    commit(tmp_path / "library", {"lib.py": ""})
    git(repository, "submodule", "--quiet", "add", str(tmp_path / "library"), "third_party/lib")
    git(repository, "commit", "--quiet", "--message", "submodule")
    with checked_out("main", repository=repository) as tree:
        assert tree.notes == ("submodule third_party/lib is empty in this tree: submodules are not checked out",)
        assert list((tree.root / "third_party/lib").iterdir()) == []
    assert (repository / "third_party/lib/lib.py").is_file()


def test_a_folder_of_the_checkout_stands_for_the_same_folder_of_the_base(repository):
    with checked_out("old", repository=repository / "perf") as tree:
        assert tree.root == tree.top / "perf"
        assert (tree.root / "case.py").is_file()


def test_a_folder_that_the_base_lacks_is_refused(repository, temporary):
    (repository / "new").mkdir()
    with pytest.raises(UsageError, match="'old' has no folder 'new': run from"), checked_out("old", repository=repository / "new"):
        pytest.fail("was checked out")
    assert list(temporary.iterdir()) == []
    assert worktrees(repository) == 1


def test_no_git_repository_is_said_with_a_way_out(tmp_path):
    with pytest.raises(UsageError, match=r"not a git repository.*; run in a checkout, or give --base-dir"):
        checked_out("main", repository=tmp_path).__enter__()


def test_git_that_is_not_installed_is_said_with_a_way_out(repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="git is not installed: install it, or give the base as a folder"):
        checked_out("main", repository=repository).__enter__()


def test_hooks_of_the_user_do_not_run(repository, tmp_path):
    hook = repository / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with checked_out("main", repository=repository):
        pass
    assert not (tmp_path / "ran").exists()


def test_a_gate_in_a_git_hook_does_not_write_the_index_that_is_committed(repository, monkeypatch):
    # git sets these for its hooks; with them `worktree add` would fill the index of the commit with the base's files.
    before = state(repository)
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git/index"))
    with checked_out("old", repository=repository) as tree:
        assert (tree.root / "kernel.py").read_text() == "VERSION = 1\n"
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert state(repository) == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_worktree_goes_when_the_gate_fails(repository, temporary, error):
    before = state(repository)

    def fail(tree: Tree) -> None:
        (tree.root / "made.py").write_text("by the code under test")
        raise error

    with pytest.raises(error), checked_out("main", repository=repository) as tree:
        fail(tree)
    assert state(repository) == before
    assert list(temporary.iterdir()) == []


def test_a_damaged_worktree_goes_too(repository, temporary):
    # git refuses to remove a worktree whose .git file is gone.
    with checked_out("main", repository=repository) as tree:
        (tree.root / ".git").unlink()
    assert worktrees(repository) == 1
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGTERM, 143, id="a job is cancelled"),
        pytest.param(signal.SIGHUP, 129, id="a terminal is closed"),
        pytest.param(signal.SIGINT, -signal.SIGINT, id="Ctrl-C"),
    ],
)
def test_the_worktree_goes_when_the_process_is_ended(repository, temporary, number, status):
    process, tree = hold(repository)
    assert (tree / "kernel.py").is_file()
    process.send_signal(number)
    assert process.wait(timeout=60) == status
    assert worktrees(repository) == 1
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_start_and_nothing_else_does(repository, temporary, tmp_path):
    git(repository, "worktree", "add", "--quiet", "--detach", str(tmp_path / "users"))
    shutil.rmtree(tmp_path / "users")  # as on a disk that is not plugged in now
    living, its_tree = hold(repository)
    killed, left = hold(repository)
    killed.kill()
    killed.wait()
    try:
        assert left.is_dir()
        with checked_out("main", repository=repository):
            assert not left.parent.exists()
            assert its_tree.is_dir()
        assert "users" in git(repository, "worktree", "list")
    finally:
        living.terminate()
        living.wait()


def test_an_abandoned_worktree_whose_folder_is_gone_is_forgotten(repository):
    killed, left = hold(repository)
    killed.kill()
    killed.wait()
    shutil.rmtree(left.parent)
    assert worktrees(repository) == 2
    assert remove_abandoned(repository) == [left]
    assert worktrees(repository) == 1


def test_a_forked_child_that_ends_leaves_its_parent_the_tree(repository):
    with checked_out("main", repository=repository) as tree:
        context = checked_out("old", repository=repository)
        other = context.__enter__()
        child = os.fork()
        if child == 0:
            context.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(child, 0)
        assert (tree.root / "kernel.py").is_file()
        assert (other.root / "kernel.py").is_file()
        context.__exit__(None, None, None)
        assert not other.root.exists()


def test_signals_are_as_they_were_and_a_handler_of_somebody_s_stays(repository):
    def handler(number, frame):
        pass

    before = signal.signal(signal.SIGHUP, handler)
    try:
        with checked_out("main", repository=repository):
            assert signal.getsignal(signal.SIGHUP) is handler
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is handler
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_tree_can_be_had_in_a_thread(repository):
    found = []

    def check_out():
        with checked_out("main", repository=repository) as tree:
            found.append((tree.root / "kernel.py").is_file())

    thread = threading.Thread(target=check_out)
    thread.start()
    thread.join()
    assert found == [True]


def test_a_folder_says_its_commit_and_whether_it_was_changed_since(repository):
    commit_ = git(repository, "rev-parse", "HEAD")
    before = state(repository)
    changed = Tree(root=repository, top=repository, label=f"{repository} at {commit_[:12]} + uncommitted changes", commit=commit_)
    assert folder_tree(repository) == changed
    assert state(repository) == before
    git(repository, "stash", "--quiet")
    (repository / "__pycache__").mkdir()
    (repository / "__pycache__/kernel.pyc").write_bytes(b"")
    assert folder_tree(repository).label == f"{repository} at {commit_[:12]}"
    assert folder_tree(repository / "perf").top == repository


def test_a_folder_outside_of_git_is_called_by_its_name(tmp_path):
    (tmp_path / "plain").mkdir()
    plain = tmp_path / "plain"
    assert folder_tree(plain) == Tree(root=plain, top=plain, label=str(plain))


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is not a folder: give the top folder of a checkout"):
        folder_tree(tmp_path / "none")
