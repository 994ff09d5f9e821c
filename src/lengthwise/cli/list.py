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
        by_place = sorted(encodings.items(), key=lambda item: (_place(item[1]), item[0]))
        rows = [(name, acts_on(made), summary(made), short_paper(made)) for name, made in by_place]
        out = console()
        out.print(_table(("encoding", "acts on", "what it is", "paper"), rows, long=2))
        rows = [(name, task.metric.replace("_", " "), task.summary) for name, task in tasks.items()]
        out.print(_table(("task", "measured by", "what a model has to do"), rows, long=2))
        rows = [(name, summary(type(backend))) for name, backend in backends.items()]
        out.print(_table(("attention backend", "what it is"), rows, long=1))
        return 0


def acts_on(made: type[nn.Module]) -> str:
    """Where an encoding acts, as words."""
    return ", ".join(site for site, method in SITES.items() if hasattr(made, method)) or "nothing"


def summary(made: type) -> str:
    """The first sentence of a class's docstring."""
    return (made.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ").rstrip(".")


def short_paper(made: type[nn.Module]) -> str:
    """Authors, year and arXiv number of the first source."""
    return str(getattr(made, "paper", "")).split(";")[0].split(", section")[0].split(", eq.")[0].replace("arXiv ", "")


def _place(made: type[nn.Module]) -> int:
    return next((place for place, method in enumerate(SITES.values()) if hasattr(made, method)), -1)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], long: int) -> Table:
    """A line a row: where the page is narrow, the column `long` ends in dots, and the others stay whole."""
    widest = [max(len(title), *(len(row[place]) for row in rows)) for place, title in enumerate(titles)]
    left = console().width - sum(widest) + widest[long] - 2 * len(titles)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, title in enumerate(titles):
        table.add_column(title, no_wrap=True, overflow="ellipsis", max_width=max(8, left) if place == long else None)
    for row in rows:
        table.add_row(*row)
    return table
