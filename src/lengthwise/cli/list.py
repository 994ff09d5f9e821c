"""`lengthwise list`: what there is, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from torch import nn

from lengthwise.attention import backends
from lengthwise.cli.options import Verbose, console
from lengthwise.encodings.registry import encodings
from lengthwise.sites import SITES
from lengthwise.tasks import tasks


@dataclass(kw_only=True)
class List:
    """List encodings, tasks and attention backends."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Print one table of each kind."""
        out = console()
        table = _table("encoding", "acts on", "what it is", "paper")
        for name, made in sorted(encodings.items(), key=lambda item: (_place(item[1]), item[0])):
            table.add_row(name, acts_on(made), summary(made), short_paper(made))
        out.print(table)
        table = _table("task", "measured by", "what a model has to do")
        for name, task in tasks.items():
            table.add_row(name, task.metric.replace("_", " "), task.summary)
        out.print(table)
        table = _table("attention backend", "what it is")
        for name, backend in backends.items():
            table.add_row(name, summary(type(backend)))
        out.print(table)
        return 0


def acts_on(made: type[nn.Module]) -> str:
    """Where an encoding acts, as words."""
    return ", ".join(site for site, method in SITES.items() if hasattr(made, method)) or "nothing"


def summary(made: type) -> str:
    """The first sentence of a class's docstring."""
    return (made.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ").rstrip(".")


def short_paper(made: type[nn.Module]) -> str:
    """Authors, year and arXiv number of the first source."""
    return str(getattr(made, "paper", "")).split(";")[0].split(", section")[0].split(", eq.")[0]


def _place(made: type[nn.Module]) -> int:
    return next((place for place, method in enumerate(SITES.values()) if hasattr(made, method)), -1)


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
