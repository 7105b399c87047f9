"""Files that survive a crash, and file errors said in words."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import NormbenchError

__all__ = ["AppendedFile", "explained", "make_directory", "write_all", "write_atomically", "write_page"]


class AppendedFile:
    """Append to a file; what was appended is on the disk when `append` returns.

    An append that fails leaves the file as it was. A file that is taken away meanwhile, or replaced by an older copy of itself as `git
    checkout` does, is put back whole. Makes the file where it is not there. Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = self._open()

    def append(self, data: bytes) -> None:
        """Write all of the data, or none."""
        if not os.fstat(self._fd).st_nlink:
            self._put_back()
        size = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, data)
            os.fsync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size)
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def _put_back(self) -> None:
        """Write what the file held under its name again."""
        # A file's `read` goes on to the end; one `os.pread` gives 2 GiB at most. Where it stands counts for nothing: we append.
        with open(self._fd, "rb", closefd=False) as held:
            held.seek(0)
            write_atomically(self.path, held.read())
        gone, self._fd = self._fd, self._open()
        os.close(gone)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte; one `os.write` may take fewer."""
    while data:
        data = data[os.write(fd, data) :]


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that a reader, or a crash, sees the old content or the new one whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_page(folder: Path, name: str, text: str, pictures: Mapping[str, bytes | None]) -> Path:
    """Write a page into a folder, made if it is not there, behind the pictures it shows, by name; return the page's path.

    A picture that is None is not drawn. Raises NormbenchError where the folder cannot be written.
    """
    page = folder / name
    with explained(f"cannot write {name} to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, picture in pictures.items():
            if picture is not None:
                write_atomically(folder / file, picture)
        write_atomically(page, text.encode())
    return page


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn an OSError into a NormbenchError that says what could not be done, why, and what to give instead."""
    try:
        yield
    except OSError as error:
        raise NormbenchError(f"{what}: {error.strerror or error}; give a folder that can be read and written") from error


def make_directory(what: str, root: Path, name: str) -> Path:
    """Make a new folder of that name under `root`, or of the name and a number where it is taken, and return its path.

    Raises NormbenchError that says what (such as "run") cannot be made there.
    """
    with explained(f"cannot make a {what} under {root}"):
        root.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1000):
            path = root / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path
    raise NormbenchError(f"cannot make a {what} under {root}: {name} and 998 more of that name are taken; choose another folder")
