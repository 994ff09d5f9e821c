"""What one comparison puts on the page, as plain words, rows and figure specs: the template only lays it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from lengthwise.lab.result import Result
from lengthwise.report.colours import OUTLINES, Style
from lengthwise.report.comparison import Comparison
from lengthwise.report.figures import bits_by_position, heat_map, loss_by_step, score_by_length
from lengthwise.report.tables import Summary, summary
from lengthwise.report.verdict import Verdict, verdict


@dataclass(frozen=True)
class Figure:
    """A figure on the page: its heading, a line to read it by, its Vega-Lite spec, the least width in pixels."""

    title: str
    caption: str
    spec: Mapping[str, Any]
    least_width: int = 0


@dataclass(frozen=True)
class Section:
    """All that the page says of one comparison.

    Args:
        title: the task's spec.
        setting: what sets it apart from other sections of the same task; may be empty.
        about: what the test is, in plain words.
        verdict: the outcome.
        legend: label, colour, SVG path and dash of each encoding.
        main: the figure shown first.
        others: the rest.
        table: the summary.
        settings: names and values that all runs share.
        run_head: column heads of the table of runs.
        runs: one row a run, as text.
    """

    title: str
    setting: str
    about: str
    verdict: Verdict
    legend: Sequence[Mapping[str, str]]
    main: Figure
    others: Sequence[Figure]
    table: Summary
    settings: Mapping[str, str]
    run_head: Sequence[str]
    runs: Sequence[Sequence[str]]


def section(comparison: Comparison, look: Mapping[str, Style], task_summary: str = "") -> Section:
    """Gather a comparison's part of the page; `task_summary` says what the task is, where the caller knows."""
    settings, head, rows = _runs(comparison.results)
    main = score_by_length(comparison, look=look)
    return Section(
        title=comparison.task,
        setting=comparison.setting,
        about=" ".join(filter(None, (_sentence(task_summary), _about(comparison)))),
        verdict=verdict(comparison),
        legend=[_key(comparison.label(name), look[name]) for name in comparison.encodings],
        main=Figure("Score by length", _hollow(comparison), _spec(main)),
        others=_others(comparison, look),
        table=summary(comparison),
        settings=settings,
        run_head=head,
        runs=rows,
    )


def duration(seconds: float) -> str:
    """Seconds as "0.8 s", "15 s", "2 min 05 s" or "1 h 02 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


def _about(comparison: Comparison) -> str:
    counts, trained, longest = comparison.length_counts, comparison.train_length, max(comparison.lengths)
    lengths = f"Trained on lengths up to {trained} ({counts}), tested up to {longest}."
    if comparison.metric.name == "bits_per_byte":
        return f"{lengths} The score is how many bits the model needs for each next byte: less is better."
    return f"{lengths} An example counts as right only if every symbol of its answer is."


def _others(comparison: Comparison, look: Mapping[str, Style]) -> list[Figure]:
    wide = 110 + 46 * len(comparison.lengths)
    figures: list[Figure] = []
    if (place := bits_by_position(comparison, look)) is not None:
        caption = "Over the longest test: how well each byte is predicted, by where it stands."
        figures.append(Figure("Bits per byte by position", caption, _spec(place)))
    title = f"{comparison.metric.short.capitalize()} at every length"
    caption = f"{comparison.metric.title}, mean over seeds; the stronger the fill, the better."
    figures.append(Figure(title, caption, _spec(heat_map(comparison)), wide))
    for metric in comparison.metrics[1:]:
        title = f"{metric.short.removeprefix('teacher-forced ').capitalize()} by length"
        forced = metric.name == "symbol_accuracy"
        caption = "Teacher-forced: each symbol is predicted with the right ones before it." if forced else metric.title
        figures.append(Figure(title, caption, _spec(score_by_length(comparison, metric, look).properties(height=260))))
    caption = "Each seed faint, their mean bold. A low loss says nothing about other lengths."
    figures.append(Figure("Loss in training", caption, _spec(loss_by_step(comparison, look))))
    return figures


def _hollow(comparison: Comparison) -> str:
    hollow = any(comparison.untrained_rows(name) for name in comparison.encodings)
    text = "Mean over seeds; the band is its interval."
    return f"{text} Hollow points read rows of a table that were never trained." if hollow else text


def _spec(chart: alt.LayerChart) -> dict[str, Any]:
    """The figure without its theme, which the page adds, and without the address of the schema.

    The tests check figures against the schema; doing so on every page would take as long as all the rest.
    """
    return {key: value for key, value in chart.to_dict(validate=False).items() if key not in ("config", "$schema")}


def _key(label: str, style: Style) -> dict[str, str]:
    return {"label": label, "colour": style.colour, "path": OUTLINES[style.shape]}


def _runs(results: Sequence[Result]) -> tuple[dict[str, str], list[str], list[list[str]]]:
    """What all runs share, and a table of the rest."""
    every = [_all_settings(result) for result in results]
    names = list(dict.fromkeys(name for settings in every for name in settings))
    shared = {name: every[0].get(name, "–") for name in names if len({row.get(name) for row in every}) == 1}
    own = ["encoding", "seed", *(name for name in names if name not in shared and name not in ("encoding", "seed"))]
    measured = ["parameters", "training", "testing", "tokens/s", "last loss", "stopped early", "address"]
    for name in ("encoding", "seed"):
        shared.pop(name, None)
    rows = [
        [*(row.get(name, "–") for name in own), *_measured(result)] for row, result in zip(every, results, strict=True)
    ]
    return shared, own + measured, rows


def _all_settings(result: Result) -> dict[str, str]:
    one = result.experiment
    lengths = ", ".join(map(str, one.test_lengths))
    rows = {} if result.table_rows is None else {"table rows (trained)": f"{result.table_rows} ({result.trained_rows})"}
    plain = {"encoding": one.encoding, "seed": one.seed, "task": one.task, "trained length": one.train_length}
    plain |= {"test lengths": lengths, "test examples": one.test_examples, "data": one.data or "–"}
    return {key: str(value) for key, value in {**plain, **asdict(one.model), **asdict(one.training)}.items()} | (
        rows | result.environment
    )


def _measured(result: Result) -> list[str]:
    return [
        f"{result.parameters:,}",
        duration(result.train_seconds),
        duration(result.test_seconds),
        f"{result.tokens_per_second:,.0f}",
        f"{result.losses[-1]:.3g}" if result.losses else "–",
        "yes" if result.stopped_early else "no",
        result.experiment.address,
    ]


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."
