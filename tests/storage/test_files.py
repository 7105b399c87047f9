"""What was appended is on disk; nothing that happens to the name of a file loses what it held."""

from __future__ import annotations

import shutil

import pytest

from normbench.errors import NormbenchError
from normbench.storage.files import AppendedFile, write_page


@pytest.fixture
def appended(tmp_path):
    file = AppendedFile(tmp_path / "lines")
    file.append(b"one\n")
    yield file
    file.close()


def test_appended_lines_are_on_disk_at_once_and_behind_what_is_there(appended):
    appended.append(b"two\n")
    assert appended.path.read_bytes() == b"one\ntwo\n"
    more = AppendedFile(appended.path)
    more.append(b"three\n")
    more.close()
    assert appended.path.read_bytes() == b"one\ntwo\nthree\n"


def test_file_that_was_taken_away_is_put_back_whole(appended):
    appended.path.unlink()
    appended.append(b"two\n")
    appended.append(b"three\n")
    assert appended.path.read_bytes() == b"one\ntwo\nthree\n"


def test_older_copy_in_the_place_of_a_file_is_replaced(appended):
    older = appended.path.with_name("older")
    shutil.copy(appended.path, older)
    appended.append(b"two\n")
    older.replace(appended.path)
    appended.append(b"three\n")
    assert appended.path.read_bytes() == b"one\ntwo\nthree\n"


def test_file_whose_folder_is_gone_cannot_be_put_back(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    file = AppendedFile(folder / "lines")
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError):
        file.append(b"one\n")
    file.close()


def test_a_page_is_written_with_the_pictures_that_there_are(tmp_path):
    folder = tmp_path / "new" / "folder"
    page = write_page(folder, "page.md", "µ\n", {"a.png": b"PNG", "b.png": None})
    assert page.read_text(encoding="utf-8") == "µ\n"
    assert {file.name: file.read_bytes() for file in folder.glob("*.png")} == {"a.png": b"PNG"}


def test_a_page_that_cannot_be_written_says_why(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NormbenchError, match=r"cannot write page\.md to .*file.*; give a folder"):
        write_page(tmp_path / "file", "page.md", "", {})
