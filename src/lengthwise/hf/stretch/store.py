"""Measurements on disk, one small file each, so that a run that was killed goes on where it stood.

    FOLDER/measurements/<what>-<hash>.json     what was measured, with the settings it was measured under
    FOLDER/lock                                held by the process that measures

The hash is of the settings: other settings, another text or other weights are another file, and old ones stay.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from lengthwise.errors import StorageError
from lengthwise.files import check_folder, remove_partials, write_whole


class Store:
    """The folder of one stretch.

    Args:
        path: made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.measurements = self.path / "measurements"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the folder for this process alone.

        Raises:
            StorageError: it can't be made or written, or another process holds it.
        """
        check_folder(self.path)
        check_folder(self.measurements)
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"can't write {self.path}: {error.strerror or error}; choose another --out") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StorageError(
                    f"another process is measuring in {self.path}: wait for it, or choose another folder with --out"
                ) from None
            except OSError as error:  # some network file systems
                raise StorageError(
                    f"can't lock {self.path}: {error.strerror or error}; choose another --out"
                ) from error
            remove_partials(self.measurements)
            yield
        finally:
            os.close(handle)

    def get(self, what: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was measured under these settings, or None.

        Raises:
            StorageError: there is a file that can't be read.
        """
        path = self._file(what, settings)
        if not path.exists():
            return None
        try:
            return cast("dict[str, Any]", json.loads(path.read_text())["result"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{path} holds no measurement ({error}): delete it to measure again") from error

    def put(self, what: str, settings: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Keep a measurement; the file appears whole or not at all."""
        text = json.dumps({"settings": settings, "result": result}, indent=1)
        write_whole(self._file(what, settings), text.encode())

    def measured(
        self, what: str, settings: Mapping[str, Any], measure: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        """The stored result, or a new one, which is then stored; and whether it was stored before."""
        old = self.get(what, settings)
        if old is not None:
            return old, True
        new = measure()
        self.put(what, settings, new)
        return new, False

    def _file(self, what: str, settings: Mapping[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        name = re.sub(r"[^A-Za-z0-9]+", "-", what).strip("-")[:60]
        return self.measurements / f"{name}-{digest}.json"
