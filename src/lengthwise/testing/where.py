"""Where an exception came from: the line of the encoding's own file."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from lengthwise.testing.subject import Subject

_NOT_THEIRS = (Path(torch.__file__).parent, Path(__file__).parents[1])


def where(error: BaseException, subject: Subject) -> str:
    """`"mine.py:12, in logit_bias"`: the innermost line of the file that defines the encoding.

    Where that is a file of this package, which may hold an encoding of someone, the innermost line outside of packages
    comes first; `""` where there is none at all.
    """
    frames = [frame for one in _chain(error) for frame in traceback.extract_tb(one.__traceback__)]
    own = _file(subject.type)
    of_class = [frame for frame in frames if frame.filename == own]
    outside = [frame for frame in frames if Path(frame.filename).is_file() and not _packaged(frame.filename)]
    found = (outside or of_class) if own is None or _packaged(own) else (of_class or outside)
    return f"{_short(found[-1].filename)}:{found[-1].lineno}, in {found[-1].name}" if found else ""


def _packaged(name: str) -> bool:
    path = Path(name)
    return "site-packages" in path.parts or any(folder in path.parents for folder in _NOT_THEIRS)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it was raised from, the outermost first."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__


def _file(made: type) -> str | None:
    try:
        return inspect.getsourcefile(made)
    except (TypeError, OSError):  # a class made in a session
        return None


def _short(name: str) -> str:
    try:
        path = os.path.relpath(name)
    except ValueError:  # on another drive
        return name
    return name if path.startswith("..") else path
