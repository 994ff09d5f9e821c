"""The page of extensions: bits by length, a small figure an encoding, and a table each; one file without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from lengthwise.files import write_whole
from lengthwise.lab.extend_store import UNTOUCHED
from lengthwise.lab.statistics import ENOUGH_SEEDS
from lengthwise.report.colours import Style, styles
from lengthwise.report.comparison import Comparison
from lengthwise.report.extension import Panel, markdown, overview
from lengthwise.report.frame import render
from lengthwise.report.tables import Cell, Column
from lengthwise.report.verdict import RULE

TITLE = "Extensions of trained models past their length"
BROUGHT_OUT = 4
"""So many methods of a figure have a colour: the best past the trained length."""
GREY = "#7f8893"


@dataclass(frozen=True)
class Overview:
    """Encodings of one task with the same lengths: each untouched, and by its best method."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[tuple[str, tuple[Cell, ...]]]


def write_extensions(shown: Sequence[Panel], path: Path, *, command: str | None = None) -> Path:
    """Write the page and return its path.

    Raises:
        StorageError: the file can't be written.
    """
    write_whole(path, render_extensions(shown, command=command).encode("utf-8", "backslashreplace"))
    return path


def render_extensions(shown: Sequence[Panel], *, command: str | None = None) -> str:
    """The page as text."""
    look = styles(label for panel in shown for label in brought_out(panel))
    figures = {
        f"figure-0-{number}": _spec(score_by_length(panel, look, ends_of(panel, shown)))
        for number, panel in enumerate(shown)
    }
    summaries = overviews(shown)
    texts = {f"markdown-{number}": panel.to_markdown() for number, panel in enumerate(shown)}
    texts |= {f"overview-{number}": markdown("encoding", one.columns, one.rows) for number, one in enumerate(summaries)}
    return render(
        "extension.html",
        title=TITLE,
        overview="Nothing was trained again: every method reads the weights of the untouched model.",
        figures=figures,
        texts=texts,
        changes={},
        panels=shown,
        overviews=summaries,
        command=command,
        rule=RULE,
        enough=ENOUGH_SEEDS,
        brought_out=BROUGHT_OUT,
    )


def overviews(shown: Sequence[Panel]) -> list[Overview]:
    """One for each task, trained length and list of lengths."""
    groups: dict[tuple[str, str, tuple[Column, ...]], list[Panel]] = {}
    for panel in shown:
        one = panel.comparison
        where = f"{one.task}, trained at {one.train_length}"
        groups.setdefault((where, one.metric.title, panel.columns), []).append(panel)
    return [
        Overview(f"{where}: {metric}", columns, overview(group)) for (where, metric, columns), group in groups.items()
    ]


def brought_out(panel: Panel) -> list[str]:
    """The methods that have a colour."""
    return [label for label in panel.comparison.encodings if label != UNTOUCHED][:BROUGHT_OUT]


def ends_of(panel: Panel, shown: Sequence[Panel]) -> tuple[float, float]:
    """The ends of the scores' axis, shared by all panels with the same metric."""
    if panel.comparison.metric.scale != 1.0:
        return 0.0, 1.0
    values = [
        value
        for other in shown
        if other.comparison.metric == panel.comparison.metric
        for label in (UNTOUCHED, *brought_out(other))
        for row in _rows(other.comparison, [label])
        for value in (row["mean"], row["low"], row["high"])
        if value is not None
    ]
    room = 0.04 * (max(values, default=1.0) - min(values, default=0.0) or 1.0)
    return min(values, default=0.0) - room, max(values, default=1.0) + room


def score_by_length(panel: Panel, look: Mapping[str, Style], ends: tuple[float, float]) -> alt.LayerChart:
    """Score against length: the untouched model thick and grey, the best methods in colours, the others thin.

    Args:
        panel: one encoding.
        look: a style for each method that is brought out.
        ends: of the scores' axis.
    """
    one = panel.comparison
    chosen = brought_out(panel)
    rest = [label for label in one.encodings if label not in (UNTOUCHED, *chosen)]
    names = [one.label(label) for label in (UNTOUCHED, *chosen)]
    colours = [GREY, *(look[label].colour for label in chosen)]
    dashes = [[1, 0], *([*look[label].dash] or [1, 0] for label in chosen)]
    text = one.metric.name == "bits_per_byte"
    kind: dict[str, Any] = {"type": "log", "base": 2} if text else {"zero": False}
    scale = alt.Scale(**kind, nice=False, padding=14)
    axis = alt.Axis(values=[column.length for column in panel.columns], format="d", grid=False, labelOverlap=True)
    x = alt.X("length:Q", title=f"Length ({one.length_counts})", scale=scale, axis=axis)
    shown = alt.Axis(format=".0%" if one.metric.scale != 1.0 else "~g", tickCount=5)
    y = alt.Y("mean:Q", title=one.metric.title, scale=alt.Scale(domain=list(ends), nice=False), axis=shown)
    legend = alt.Legend(columns=1, symbolType="stroke", orient="bottom")
    colour = alt.Color("method:N", title=None, scale=alt.Scale(domain=names, range=colours), legend=legend, sort=None)
    dash = alt.StrokeDash("method:N", title=None, scale=alt.Scale(domain=names, range=dashes), legend=None)
    tips = ["method:N", "length:Q", alt.Tooltip("text:N", title="mean"), "seeds:Q"]
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, y=y, color=colour)
    others = alt.Chart(alt.NamedData("rest")).encode(x=x, y=y, detail="method:N", tooltip=tips)
    width = alt.StrokeWidth("width:Q", scale=None, legend=None)
    point = alt.OverlayMarkDef(size=14, color=GREY)
    layers = [
        others.mark_line(strokeWidth=1, opacity=0.45, color=GREY, clip=True, point=point),
        base.mark_rule(strokeWidth=1.2, clip=True).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(clip=True).encode(strokeDash=dash, strokeWidth=width),
        base.mark_point(size=34, filled=True, opacity=1, clip=True).encode(tooltip=tips),
    ]
    where = alt.Chart(alt.NamedData("trained")).encode(x="at:Q")
    layers.append(where.mark_rule(strokeWidth=1.5, strokeDash=[4, 3]))
    mark = where.mark_text(align="left", baseline="bottom", dx=-4, dy=-5, fontSize=11, fontWeight="bold")
    layers.append(mark.encode(text="mark:N", y=alt.value(0)))
    data: dict[str, Any] = {
        "rows": _rows(one, [UNTOUCHED, *chosen]),
        "rest": _rows(one, rest),
        "trained": [{"at": one.train_length, "mark": f"trained to {one.train_length}"}],
    }
    return alt.LayerChart(layer=layers, datasets=data).properties(width="container", height=300)


def _rows(comparison: Comparison, labels: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for label in labels:
        for length in comparison.lengths:
            interval = comparison.interval(label, length)
            if interval is None:
                continue
            mean, low, high = float(interval.mean[0]), float(interval.low[0]), float(interval.high[0])
            known = interval.seeds > 1
            text = comparison.metric.text(mean)
            if known:
                text += f" [{comparison.metric.text(low)}–{comparison.metric.text(high)}]"
            spread = {"low": low if known else None, "high": high if known else None}
            row = {"method": comparison.label(label), "length": length, "mean": mean, **spread, "text": text}
            rows.append({**row, "seeds": interval.seeds, "width": 3.4 if label == UNTOUCHED else 2})
    return rows


def _spec(chart: alt.LayerChart) -> dict[str, Any]:
    """The figure without its theme, which the page adds, and without the address of the schema."""
    return {key: value for key, value in chart.to_dict(validate=False).items() if key not in ("config", "$schema")}
