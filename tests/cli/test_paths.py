"""A path that cannot hold what is written after the work is refused before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from normbench.cli.paths import attempted, require_file_place, require_folder_place, require_folder_there
from normbench.errors import NormbenchError, UsageError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.touch()
    return path


def test_a_folder_to_read_is_there(tmp_path, file):
    require_folder_there("--studies", None)
    require_folder_there("--studies", tmp_path)
    with pytest.raises(UsageError, match=r"--studies .*file' is a file: give a folder that is there"):
        require_folder_there("--studies", file)
    with pytest.raises(UsageError, match=r"--studies .*none' does not exist: give a folder that is there"):
        require_folder_there("--studies", tmp_path / "none")


def test_a_folder_to_write_may_be_made(tmp_path, file):
    for path in (None, tmp_path, tmp_path / "new" / "one", Path("new")):
        require_folder_place("--out", path)
    for path in (file, file / "below"):
        with pytest.raises(UsageError, match=r"cannot be a folder: .*file' is a file"):
            require_folder_place("--out", path)
    assert not (tmp_path / "new").exists()


def test_a_file_to_write_has_a_folder(tmp_path, file):
    for path in (None, file, tmp_path / "new", Path("new.md")):
        require_file_place("--markdown", path)
    with pytest.raises(UsageError, match="is a folder: give the name of a file"):
        require_file_place("--markdown", tmp_path)
    with pytest.raises(UsageError, match=r"--markdown: folder .*none' of 'new' does not exist"):
        require_file_place("--markdown", tmp_path / "none" / "new")


def test_a_failure_to_write_waits_until_the_result_is_shown(tmp_path):
    def fail():
        raise NormbenchError("no space left")

    assert attempted(lambda: tmp_path) == (tmp_path, None)
    path, failure = attempted(fail)
    assert (path, str(failure)) == (None, "no space left")
