"""What every verb shares."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import tyro
from rich.console import Console

Verbose = Annotated[bool, tyro.conf.arg(aliases=["-v"], help_behavior_hint=""), tyro.conf.FlagCreatePairsOff]
"""The option that every verb has: show a traceback with an error."""


def find_modules_here() -> None:
    """Let modules of this folder be imported, which the path of an installed script leaves out."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def console() -> Console:
    """Where results go; markup in the texts of users is not read."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return _Console(markup=False, highlight=False, width=None if narrow else 200)  # a pipe has no edge to cut at


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would leave with an exit code of its own
