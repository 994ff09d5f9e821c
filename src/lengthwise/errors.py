"""Errors that say what was given, what was expected and what to do.

Every error the package raises on purpose is a `LengthwiseError`; each also derives from the built-in
exception that a caller would expect, so that `except ValueError` keeps working.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LengthwiseError(Exception):
    """Base of all errors raised on purpose; its message is written for the person at the keyboard."""


class InvalidArgument(LengthwiseError, ValueError):
    """A value that can't be used, with what is expected instead."""


class UnknownName(LengthwiseError, LookupError):
    """A name that is not registered, with the nearest ones that are."""


class SpecError(InvalidArgument):
    """A spec string that does not parse, with the place where it stops making sense."""


class PositionOutOfRange(LengthwiseError, IndexError):
    """A position past the end of a learned table, with its limit and the ways to extend it."""


class BackendRefused(LengthwiseError, RuntimeError):
    """A named attention backend that can't take the request, with its reason."""


class DataError(LengthwiseError, OSError):
    """Input data that can't be read or is too small, with the file at fault."""


class StorageError(LengthwiseError, OSError):
    """A run folder that can't be read, written or locked, with the folder at fault."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Say which of `choices` are closest to `name`, or list them all where none is close."""
    ordered = sorted(choices)
    close = difflib.get_close_matches(name, ordered, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(choice) for choice in close) + "?"
    return "choose one of " + ", ".join(ordered) if ordered else "there is none"
