"""What extensions do for trained models: a table an encoding, the untouched model first, gain beside cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from lengthwise.lab.extend import Extended
from lengthwise.lab.extend_store import UNTOUCHED
from lengthwise.lab.result import Result
from lengthwise.lab.statistics import Difference, paired_difference
from lengthwise.report.comparison import RESAMPLING_SEED, Comparison, comparisons
from lengthwise.report.tables import Cell, Column

BETTER, WORSE = "▲", "▼"
MARKS = (
    f"{BETTER} better and {WORSE} worse than the untouched model: separated, by the paired difference over seeds, "
    "and not 0 as shown. Bold: the best mean of the column."
)


@dataclass(frozen=True, eq=False)
class Panel:
    """One encoding and all ways to take it past its trained length.

    Args:
        encoding: spec of the trained encoding.
        comparison: the ways, in the place of encodings.
        columns: every tested length.
        rows: label and cells of each way; untouched first, then the best past the trained length first.
        best: label of the best way; the untouched model may be it.
        verdict: the outcome in a sentence or two.
        notes: what a reader must know.
    """

    encoding: str
    comparison: Comparison
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    best: str
    verdict: str
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Encoding, task and setting."""
        one = self.comparison
        where = f"{self.encoding}: {one.task}, trained at {one.train_length} {one.length_counts}"
        return f"{where} ({one.setting})" if one.setting else where

    def to_markdown(self) -> str:
        """As a Markdown table, notes below."""
        return markdown("method", self.columns, self.rows) + "\n".join(["", *self.notes, ""])


def panels(found: Sequence[Extended]) -> list[Panel]:
    """One panel for each encoding, task and setting, in the order in which they first appear."""
    by_encoding: dict[str, list[Result]] = {}
    left_out: dict[str, dict[str, str]] = {}
    for one in found:
        spec = one.run.result.experiment.encoding
        by_encoding.setdefault(spec, []).extend(_results(one))
        left_out.setdefault(spec, {}).update(one.left_out)
    return [
        _panel(spec, group, left_out[spec]) for spec, results in by_encoding.items() for group in comparisons(results)
    ]


def overview(shown: Sequence[Panel]) -> list[tuple[str, tuple[Cell, ...]]]:
    """Two rows an encoding, untouched and by its best method; for panels of the same lengths."""
    rows: list[tuple[str, tuple[Cell, ...]]] = []
    for panel in shown:
        cells = dict(panel.rows)
        for label in dict.fromkeys((panel.rows[0][0], panel.comparison.label(panel.best))):
            plain = label.removesuffix(" †")
            name = panel.encoding if plain == UNTOUCHED else f"{panel.encoding} + {plain}"
            row = tuple(replace(cell, best=False) for cell in cells[label])
            rows.append((f"{name} †" if label.endswith(" †") else name, row))
    return rows


def as_rich(head: str, columns: Sequence[Column], rows: Sequence[tuple[str, tuple[Cell, ...]]]) -> Table:
    """A table for a terminal, an interval below its mean; bold is best, dim reads untrained rows."""
    out = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    out.add_column(head, overflow="fold", min_width=8)
    for column in columns:
        out.add_column(f"{column.length}\n{column.times}", justify="right", no_wrap=True)
    for label, cells in rows:
        looks = ["bold" if cell.best else "dim" if cell.untrained else "" for cell in cells]
        texts = [cell.text.replace(" [", "\n[") for cell in cells]
        out.add_row(Text(label), *(Text(text, look) for text, look in zip(texts, looks, strict=True)))
    return out


def panel_as_rich(panel: Panel) -> Group:
    """A panel for a terminal."""
    table = as_rich("method", panel.columns, panel.rows)
    return Group(Text(panel.title, "bold"), table, Text(panel.verdict, "bold"), Text("\n".join(panel.notes), "dim"))


def markdown(head: str, columns: Sequence[Column], rows: Sequence[tuple[str, tuple[Cell, ...]]]) -> str:
    """A Markdown table."""
    lines = [[head, *(column.title for column in columns)], ["---", *(["---:"] * len(columns))]]
    for label, cells in rows:
        lines.append([label, *(f"**{cell.text}**" if cell.best else cell.text for cell in cells)])
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _results(one: Extended) -> list[Result]:
    """Each way as a result of its own, named by its label."""
    given = one.run.result
    out: list[Result] = []
    for label, measured in one.measured.items():
        scores = {name: tuple(value.scores[name] for value in measured) for name in measured[0].scores}
        untrained = any(value.untrained for value in measured)
        out.append(
            replace(
                given,
                experiment=replace(given.experiment, encoding=label, test_lengths=one.lengths),
                scores=scores,
                by_position=None,
                table_rows=given.table_rows if untrained else None,
                trained_rows=given.trained_rows if untrained else None,
            )
        )
    return out


def _panel(encoding: str, comparison: Comparison, left_out: dict[str, str]) -> Panel:
    columns = tuple(Column(length, length / comparison.train_length) for length in comparison.lengths)
    order = [UNTOUCHED, *(label for label in comparison.encodings if label != UNTOUCHED)]
    table = {label: [_cell(comparison, label, column.length) for column in columns] for label in order}
    for place in range(len(columns)):
        top = max(comparison.metric.better(row[place].mean) for row in table.values())
        for row in table.values():
            row[place] = replace(row[place], best=comparison.metric.better(row[place].mean) == top > -np.inf)
    rows = tuple((comparison.label(label), tuple(cells)) for label, cells in table.items())
    best = comparison.encodings[0]
    notes = [f"{comparison.metric.title}. Mean over seeds [95 % bootstrap interval].", MARKS]
    interval = comparison.interval(UNTOUCHED, comparison.lengths[0])
    if interval is not None and interval.note:
        notes.append(f"{interval.note[0].upper()}{interval.note[1:]}.")
    ends = comparison.untrained_rows(UNTOUCHED)
    if ends is not None:
        notes.append(
            f"† reads rows of the table that training never reached: only the first {ends[0]} of {ends[1]} were "
            "trained, and all other methods are given these alone."
        )
    if comparison.metric.name == "bits_per_byte":
        notes.append(
            "Bits per byte hardly measure how far bytes are used: a method that sees recent ones only may be the best."
        )
    if left_out:
        notes.append(f"Left out: {'; '.join(_grouped(left_out))}.")
    return Panel(encoding, comparison, columns, rows, best, _verdict(comparison, best), tuple(notes))


def _grouped(left_out: dict[str, str]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        reasons.setdefault(reason, []).append(name)
    return [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]


def _cell(comparison: Comparison, label: str, length: int) -> Cell:
    metric = comparison.metric
    seeds = len(comparison.at(label, length))
    untrained = length > comparison.train_length and comparison.untrained_rows(label) is not None
    interval = comparison.interval(label, length)
    if interval is None:
        ended = all(np.isnan(score) for score in comparison.at(label, length).values())
        return Cell(np.nan, np.nan, np.nan, seeds, False, untrained, "–" if ended else "diverged")
    mean, low, high = float(interval.mean[0]), float(interval.low[0]), float(interval.high[0])
    text = metric.text(mean) + _mark(comparison, _difference(comparison.at(label, length), comparison, length))
    if not np.isnan(low):
        text += f" [{metric.text(low)}–{metric.text(high)}]"
    return Cell(mean, low, high, seeds, False, untrained, text)


def _difference(scores: Mapping[int, float], comparison: Comparison, length: int | None) -> Difference | None:
    """Scores less those of the untouched model, by seed: at one length, or over all lengths past the trained one."""
    other = comparison.far(UNTOUCHED) if length is None else comparison.at(UNTOUCHED, length)
    seeds = [seed for seed in scores if seed in other and np.isfinite([scores[seed], other[seed]]).all()]
    if not seeds:
        return None
    ours, theirs = (np.array([[one[seed]] for seed in seeds]) for one in (scores, other))  # [seeds, 1]
    return paired_difference(ours, theirs, rng=np.random.default_rng(RESAMPLING_SEED))


def _mark(comparison: Comparison, difference: Difference | None) -> str:
    if difference is None or not difference.separated[0]:
        return ""
    if float(comparison.metric.text(abs(float(difference.interval.mean[0])))) == 0:
        return ""  # both would be shown as the same number
    ahead = (difference.interval.mean[0] > 0) == comparison.metric.higher_is_better
    return BETTER if ahead else WORSE


def _verdict(comparison: Comparison, best: str) -> str:
    metric, trained = comparison.metric, comparison.train_length
    far = comparison.far_lengths
    if not far:
        return f"No length past {trained} was tested."
    mean = sum(comparison.far(best).values()) / len(comparison.far(best))
    level = metric.text(mean)
    at = ("on average at " if len(far) > 1 else "at ") + ", ".join(map(str, far))
    if best == UNTOUCHED:
        others = [label for label in comparison.encodings if label != UNTOUCHED]
        after = f" The best of the methods is {others[0]}." if others else ""
        return f"No method is better past {trained} than the model as it is: {level}{metric.unit} {at}.{after}"
    difference = _difference(comparison.far(best), comparison, None)
    text = f"Best past {trained}: {best}, {level}{metric.unit} {at}"
    if difference is not None:
        gap = metric.text(abs(float(difference.interval.mean[0])))
        word = "separated" if difference.separated[0] else "not separated"
        text += f", better by {gap} than the model as it is ({word})"
    here = _difference(comparison.at(best, trained), comparison, trained) if trained in comparison.lengths else None
    if here is None:
        return f"{text}."
    cost = float(here.interval.mean[0]) * (-1.0 if metric.higher_is_better else 1.0)
    word = "costs" if cost > 0 else "gains"
    shown = metric.text(abs(cost))
    nothing = float(shown) == 0
    return f"{text}. At {trained} it {'costs nothing' if nothing else f'{word} {shown}{metric.difference_unit}'}."
