"""Write a file whole or not at all, and find out early that it can't be written."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from errno import EISDIR, ENOTDIR
from pathlib import Path
from tempfile import TemporaryFile

from lengthwise.errors import StorageError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part; makes missing folders.

    A link stays, and what it points to is replaced. A device or a pipe is written to as it is.

    Raises:
        StorageError: the folder can't be made or written, or the disk is full; an older file is untouched.
    """
    with _told(path):
        if _is_stream(path):
            path.write_bytes(data)
            return
        target = _target(path)
        partial = target.parent / f".{target.name}.{os.getpid()}.partial"
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name itself has to reach the disk
        finally:
            os.close(folder)


def remove_partials(folder: Path) -> None:
    """Remove what killed processes have left half written; only while no other process writes there."""
    with _told(folder):
        for partial in folder.glob(".*.partial"):
            partial.unlink(missing_ok=True)


def check_file(path: Path) -> None:
    """Raise the `StorageError` of `write_whole` now, before work is done that would be lost; makes missing folders."""
    with _told(path):
        if not _is_stream(path):
            _try(_target(path).parent)


def check_folder(folder: Path) -> None:
    """Raise `StorageError` where files can't be written in a folder; makes it where it is missing."""
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _try(folder)


def _try(folder: Path) -> None:
    with TemporaryFile(dir=folder):
        pass


def _target(path: Path) -> Path:
    """The file behind all links, in a folder that exists."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _is_stream(path: Path) -> bool:
    """Whether there is something that no file may replace: a device or a pipe, such as `/dev/null`."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing there: writing tells whether that is a fault
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def _told(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        # A folder can't be made where a file stands: what exists is then the fault, not the answer.
        reason = os.strerror(ENOTDIR) if isinstance(error, FileExistsError) else error.strerror or error
        raise StorageError(f"can't write {path}: {reason}; free space, or choose another place") from error
