"""Real git repositories for the tests of the gate, made where pytest says."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

IDENTITY = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))
}
NOBODYS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_OPTIONAL_LOCKS": "0"}


def git(folder: Path, *arguments: str) -> str:
    """Run git, with nobody's configuration and no write that was not asked for, and return what it prints."""
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-C", str(folder), *arguments],
        env={**os.environ, **IDENTITY, **NOBODYS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files by their paths; the text may be indented as the test is."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(textwrap.dedent(text))


def commit(repository: Path, files: dict[str, str], message: str = "change") -> str:
    """Commit files, in a new repository where there is none, and return the commit."""
    if not (repository / ".git").exists():
        repository.mkdir(parents=True, exist_ok=True)
        git(repository, "init", "--quiet", "--initial-branch", "main")
    write(repository, files)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", message)
    return git(repository, "rev-parse", "HEAD")
