"""Other packages, imported only when they are asked for: they belong to the development extra."""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
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
    """A module of a peer; what it warns of while it loads is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def model(name: str) -> Any:
    """The modeling module of one model of `transformers`."""
    return module(f"transformers.models.{name}.modeling_{name}")
