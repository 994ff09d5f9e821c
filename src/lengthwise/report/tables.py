"""Tables of a comparison: every score as a long frame, and a summary at the trained length, 1.5, 2 and 4 times it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from lengthwise.lab.result import Result
from lengthwise.report.comparison import Comparison
from lengthwise.report.metrics import Metric

RATIOS = (1.0, 1.5, 2.0, 4.0)
NEAR = 1.2
"""A tested length stands for a ratio where it lies within this factor of it."""


@dataclass(frozen=True)
class Column:
    """A tested length, and how many times the trained length it is."""

    length: int
    ratio: float

    @property
    def times(self) -> str:
        """ "trained" or "2×"; one decimal where it is not a whole number."""
        return "trained" if self.ratio == 1 else f"{self.ratio:.1f}".removesuffix(".0") + "×"

    @property
    def title(self) -> str:
        """ "128 (trained)" or "256 (2×)"."""
        return f"{self.length} ({self.times})"


@dataclass(frozen=True)
class Cell:
    """Mean over seeds at one length, with its interval.

    Args:
        mean: nan where not tested or where a run diverged.
        low: lower end; nan where there is no interval.
        high: upper end; nan where there is no interval.
        seeds: number of seeds.
        best: whether no other mean of the column is better.
        untrained: whether the length reaches rows of a learned table that training did not.
        text: as shown, for example "72.3 [68.0–75.1]", "–" where not tested, "diverged" where not finite.
    """

    mean: float
    low: float
    high: float
    seeds: int
    best: bool
    untrained: bool
    text: str


@dataclass(frozen=True)
class Summary:
    """One row an encoding, the best past the trained length first.

    Args:
        metric: what the cells hold.
        columns: the trained length, those near 1.5, 2 and 4 times it, and the longest.
        rows: label of the encoding and its cells.
        notes: what a reader must know, one sentence each.
    """

    metric: Metric
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...]

    def to_markdown(self) -> str:
        """As a Markdown table, notes below."""
        head = ["encoding", *(column.title for column in self.columns)]
        rows = [[label, *(cell.text for cell in cells)] for label, cells in self.rows]
        lines = [_markdown(head), "|" + " --- |" + " ---: |" * len(self.columns), *map(_markdown, rows)]
        return "\n".join([*lines, "", self.metric.title + ".", *self.notes]) + "\n"

    def to_csv(self) -> str:
        """As CSV, one line for each encoding and length, with scores as measured (shares from 0 to 1)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["encoding", "length", "ratio", "metric", "mean", "low", "high", "seeds"])
        for label, cells in self.rows:
            for column, cell in zip(self.columns, cells, strict=True):
                numbers = ["" if math.isnan(value) else repr(value) for value in (cell.mean, cell.low, cell.high)]
                name = label.removesuffix(" †")
                writer.writerow([name, column.length, f"{column.ratio:g}", self.metric.name, *numbers, cell.seeds])
        return out.getvalue()


def long_frame(results: Sequence[Result]) -> pl.DataFrame:
    """Every score of every run: task, encoding, seed, trained_length, length, metric, score, address."""
    rows = [
        (one.task, one.encoding, one.seed, one.train_length, length, metric, score, one.address)
        for result in results
        for one in (result.experiment,)
        for metric, scores in result.scores.items()
        for length, score in zip(one.test_lengths, scores, strict=True)
    ]
    schema = {"task": pl.String, "encoding": pl.String, "seed": pl.Int64, "trained_length": pl.Int64}
    schema |= {"length": pl.Int64, "metric": pl.String, "score": pl.Float64, "address": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def summary(comparison: Comparison, metric: Metric | None = None) -> Summary:
    """The table of one comparison, in its own metric or another that the runs have."""
    metric = metric or comparison.metric
    columns = _columns(comparison)
    cells = {
        name: [_cell(comparison, name, column.length, metric) for column in columns] for name in comparison.encodings
    }
    for place in range(len(columns)):
        top = max(metric.better(row[place].mean) for row in cells.values())
        for row in cells.values():
            best = math.isfinite(top) and metric.better(row[place].mean) == top
            row[place] = replace(row[place], best=best)
    rows = tuple((comparison.label(name), tuple(row)) for name, row in cells.items())
    return Summary(metric, columns, rows, _notes(comparison))


def as_rich(table: Summary, *, title: str | None = None) -> Group:
    """The table for a terminal, its notes below; the best mean of each column is bold, untrained rows are dim.

    An interval stands below its mean: five lengths then fit into 80 columns, with no number cut.
    """
    out = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    out.add_column("encoding", overflow="fold", min_width=8)
    for column in table.columns:
        out.add_column(f"{column.length}\n{column.times}", justify="right", no_wrap=True)
    for label, cells in table.rows:
        styles = ["bold" if cell.best else "dim" if cell.untrained else "" for cell in cells]
        texts = [cell.text.replace(" [", "\n[") for cell in cells]
        out.add_row(Text(label), *(Text(text, style) for text, style in zip(texts, styles, strict=True)))
    # Not a title and a caption: these are folded to the width of the table.
    head = [Text(title, "bold")] if title else []
    return Group(*head, out, Text("\n".join((table.metric.title + ".", *table.notes)), "dim"))


def _columns(comparison: Comparison) -> tuple[Column, ...]:
    """The trained length always; for each other ratio the nearest tested length; the longest last."""
    trained = comparison.train_length
    chosen = {trained}
    for ratio in RATIOS[1:]:
        far = [length for length in comparison.lengths if length > trained]
        near = min(far, key=lambda length: abs(math.log(length / trained / ratio)), default=trained)
        if abs(math.log(near / trained / ratio)) <= math.log(NEAR):
            chosen.add(near)
    chosen.add(max(comparison.lengths))
    return tuple(Column(length, length / trained) for length in sorted(chosen))


def _cell(comparison: Comparison, encoding: str, length: int, metric: Metric) -> Cell:
    untrained = length > comparison.train_length and comparison.untrained_rows(encoding) is not None
    seeds = len(comparison.at(encoding, length, metric))
    interval = comparison.interval(encoding, length, metric)
    if interval is None:
        return Cell(math.nan, math.nan, math.nan, seeds, False, untrained, "diverged" if seeds else "–")
    mean, low, high = float(interval.mean[0]), float(interval.low[0]), float(interval.high[0])
    text = metric.text(mean)
    if not math.isnan(low):
        text += f" [{metric.text(low)}–{metric.text(high)}]"
    return Cell(mean, low, high, seeds, False, untrained, text)


def _notes(comparison: Comparison) -> tuple[str, ...]:
    notes = ["Mean over seeds [95 % bootstrap interval]."]
    few = {
        interval.note
        for encoding in comparison.encodings
        for length in comparison.lengths
        if (interval := comparison.interval(encoding, length)) is not None and interval.note
    }
    notes += [f"{note[0].upper()}{note[1:]}." for note in sorted(few)]
    for encoding in comparison.encodings:
        if rows := comparison.untrained_rows(encoding):
            notes.append(
                f"† {encoding}: of the table's {rows[1]} rows only the first {rows[0]} were trained; "
                "the others hold their first random values."
            )
    return tuple(notes)


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
