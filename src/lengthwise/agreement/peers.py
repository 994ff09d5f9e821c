"""Other packages, imported only when they are asked for: they belong to the development extra."""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def version(peer: str) -> str | None:
    """Version of an installed peer, None where it is missing."""
    try:
        return importlib.metadata.version(peer)
    except importlib.metadata.PackageNotFoundError:
        return None


def module(name: str) -> Any:
    """A module of a peer; what it warns of while it loads is its own affair.

    Raises:
        ImportError: it can't be loaded.
    """
    loaded = _loaded(name)
    if isinstance(loaded, Exception):
        raise ImportError(f"it does not load: {loaded}") from loaded
    return loaded


def model(name: str) -> Any:
    """The modeling module of one model of `transformers`."""
    return module(f"transformers.models.{name}.modeling_{name}")


@contextmanager
def quiet(peer: str) -> Generator[None]:
    """What a peer logs of the settings that it is given is kept from the table; errors are not."""
    log = logging.getLogger(peer)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


@cache  # what does not load is slow to fail, and would be asked for again at every place
def _loaded(name: str) -> Any:
    """A module, or what was raised as it was loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception as error:  # a package of someone else may fail in any way
            return error
