"""Write a file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from lengthwise.errors import StorageError


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` to a file beside `path` and move it there once it is safe on disk; makes missing folders.

    Raises:
        StorageError: the folder can't be made or written, or the disk is full; an older file at `path` is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror or error}; choose another place") from error
