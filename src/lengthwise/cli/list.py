"""`lengthwise list`: what there is, a line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table
from torch import nn

from lengthwise.attention import backends
from lengthwise.cli.options import Verbose, console
from lengthwise.encodings.registry import encodings
from lengthwise.extension.method import CHANGES, changes
from lengthwise.extension.registry import extensions
from lengthwise.patterns import patterns
from lengthwise.sites import SITES
from lengthwise.studies import studies
from lengthwise.tasks import tasks

WORDS = {
    "embeddings": "embeddings",
    "rotation": "queries and keys",
    "bias": "logits, by a bias",
    "logits": "logits, as a whole",
    "hidden": "what hidden states decide",
}
"""The sites of the contract in words."""
PAPER = 34
"""Columns for a paper: first author, year and number."""


@dataclass(kw_only=True)
class List:
    """List encodings, extensions, tasks and attention backends."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Print one table of each kind."""
        out = console()
        groups = {f"encodings that act {place}": rows for place, rows in by_place().items()}
        groups |= {f"extensions that change {what}": rows for what, rows in by_change().items()}
        name = max(len(row[0]) for rows in groups.values() for row in rows)
        for title, rows in groups.items():
            out.print(title, style="bold")
            for row in rows:
                what = out.width - name - PAPER - 4
                out.print(f"{row[0]:<{name}}  {_cut(row[1], what):<{what}}  {_cut(row[2], PAPER)}", highlight=False)
            out.print()
        rows = [(name, summary(made)) for name, made in patterns.items()]
        out.print(_table(("pattern of layers", "what it is"), rows, long=1))
        name = max(map(len, tasks))
        for title, rows in by_family().items():
            out.print(title, style="bold")
            for row in rows:
                out.print(f"{row[0]:<{name}}  {_cut(row[1], out.width - name - 2)}", highlight=False)
            out.print()
        rows = [(name, summary(make)) for name, make in studies.items()]
        out.print(_table(("study", "what it asks"), rows, long=1))
        rows = [(name, summary(type(backend))) for name, backend in backends.items()]
        out.print(_table(("attention backend", "what it is"), rows, long=1))
        for registry in (encodings, extensions, patterns, tasks, studies, backends):
            for error in registry.broken.values():
                print(f"lengthwise: {error}", file=sys.stderr)
        return 0


def acts_on(made: type[nn.Module]) -> str:
    """Where an encoding acts, as words."""
    places = [WORDS[site] for site, method in SITES.items() if hasattr(made, method)]
    return ", ".join(places) or ("the places of what it wraps" if hasattr(made, "example") else "nothing")


def summary(made: Callable[..., object]) -> str:
    """The first sentence of a docstring."""
    return (made.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ").rstrip(".")


def short_paper(made: type[object]) -> str:
    """Authors, year and arXiv number of the first source."""
    return (
        str(getattr(made, "paper", ""))
        .split(";")[0]
        .split(", section")[0]
        .split(", eq.")[0]
        .split(" (")[0]
        .replace("arXiv ", "")
    )


def by_place() -> dict[str, list[tuple[str, str, str]]]:
    """Name, summary and paper of every encoding, under where they act."""
    places: dict[str, list[tuple[str, str, str]]] = {}
    words = ["nothing", *WORDS.values()]
    ordered = sorted(
        encodings.items(), key=lambda item: next((words.index(w) for w in words if w in acts_on(item[1])), len(words))
    )
    for name, made in ordered:
        places.setdefault(f"on {acts_on(made)}", []).append((name, summary(made), short_paper(made)))
    return places


def by_change() -> dict[str, list[tuple[str, str, str]]]:
    """Name, summary and paper of every extension, under what it changes first."""
    groups: dict[str, list[tuple[str, str, str]]] = {what: [] for what in CHANGES.values()}
    for name, made in extensions.items():
        groups[changes(made)[0]].append((name, summary(made), short_paper(made)))
    return {what: rows for what, rows in groups.items() if rows}


def by_family() -> dict[str, list[tuple[str, str]]]:
    """Name and summary of every task, under what it is about and how it is measured."""
    families: dict[str, list[tuple[str, str]]] = {}
    ordered = sorted(tasks.items(), key=lambda item: (getattr(item[1], "family", "others"), item[0]))
    for name, task in ordered:
        title = f"tasks of {getattr(task, 'family', 'others')}, measured by {task.metric.replace('_', ' ')}"
        families.setdefault(title, []).append((name, task.summary))
    return families


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


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
