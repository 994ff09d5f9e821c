"""Write a file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from lengthwise.errors import StorageError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part; makes missing folders.

    Raises:
        StorageError: the folder can't be made or written, or the disk is full; an older file is untouched.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name itself has to reach the disk
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageError(
            f"can't write {path}: {error.strerror or error}; free space, or choose another place"
        ) from error
