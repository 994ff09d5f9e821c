"""The page of a stretch: perplexity by position, costs and gains, passkeys by depth; one file that needs no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from lengthwise.files import write_whole
from lengthwise.report.colours import OUTLINES, Style, styles
from lengthwise.report.figures import FOCUS
from lengthwise.report.frame import render


@dataclass(frozen=True)
class Line:
    """One method's perplexity by position.

    Args:
        label: its spec.
        points: position and perplexity.
    """

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Retrieval:
    """One method's passkeys.

    Args:
        label: its spec.
        cells: length, depth in percent, and part found from 0 to 1.
    """

    label: str
    cells: Sequence[tuple[int, float, float]]


@dataclass(frozen=True)
class StretchPage:
    """All that the page shows.

    Args:
        title: of the page.
        overview: what was measured, in a sentence.
        verdict: the outcome.
        chosen: the method that it advises.
        trained: the trained length.
        head: column heads of the table.
        rows: cells of the table, a second line of a cell behind a newline; a row a method.
        best: row and column of the cells to bring out.
        notes: what a reader must know, a sentence each.
        lines: perplexity by position.
        retrievals: passkeys.
        use: how to load the model that was written; may be empty.
        facts: names and values of text, versions, seconds.
        command: that made all this.
    """

    title: str
    overview: str
    verdict: str
    chosen: str
    trained: int
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: Sequence[tuple[int, int]]
    notes: Sequence[str]
    lines: Sequence[Line]
    retrievals: Sequence[Retrieval]
    use: str
    facts: Mapping[str, str]
    command: str


def write_stretch(page: StretchPage, path: Path) -> Path:
    """Write the page and return its path.

    Raises:
        StorageError: the file can't be written.
    """
    write_whole(path, render_stretch(page).encode("utf-8", "backslashreplace"))
    return path


def render_stretch(page: StretchPage) -> str:
    """The page as text."""
    look = styles(line.label for line in page.lines)
    charts = [
        against(page.lines, page.chosen, page.trained, look),
        by_position(page.lines, page.trained, look),
        *(by_depth(one, page.trained) for one in page.retrievals),
    ]
    figures = {f"figure-1-{number}": _spec(chart) for number, chart in enumerate(charts)}
    return render(
        "stretch.html",
        title=page.title,
        overview=page.overview,
        figures=figures,
        texts={"markdown-1": _markdown(page)},
        page=page,
        legend=[_key(line.label, look[line.label]) for line in page.lines],
    )


def by_position(lines: Sequence[Line], trained: int, look: Mapping[str, Style]) -> alt.LayerChart:
    """Perplexity against position, a line a method, the trained length marked."""
    y = alt.Y("value:Q", title="Perplexity (log scale)", scale=alt.Scale(type="log", nice=False))
    return _lines(lines, [dict(line.points) for line in lines], y, trained, look, "perplexity", ".3f")


def against(lines: Sequence[Line], chosen: str, trained: int, look: Mapping[str, Style]) -> alt.LayerChart:
    """Percent of perplexity above the chosen method at the same tokens, so that the text's own ups and downs go."""
    base = dict(next(line for line in lines if line.label == chosen).points)
    values = [
        {at: 100 * (value / base[at] - 1) for at, value in line.points if math.isfinite(base.get(at, math.nan))}
        for line in lines
    ]
    axis = alt.Axis(values=[-10, -3, -1, 0, 1, 3, 10, 30, 100, 1000, 10000], format="~r")
    scale = alt.Scale(type="symlog", constant=1, nice=False)
    y = alt.Y("value:Q", title=f"% above {chosen} (0 to 1 linear, then log)", scale=scale, axis=axis)
    return _lines(lines, values, y, trained, look, f"% above {chosen}", "+.2f")


def _lines(
    lines: Sequence[Line],
    values: Sequence[Mapping[float, float]],
    y: alt.Y,
    trained: int,
    look: Mapping[str, Style],
    tip: str,
    form: str,
) -> alt.LayerChart:
    labels = [line.label for line in lines]
    rows = [
        {"encoding": label, "position": at, "value": value}
        for label, points in zip(labels, values, strict=True)
        for at, value in points.items()
        if math.isfinite(value)
    ]
    colours = [look[label].colour for label in labels]
    dashes = [list(look[label].dash) or [1, 0] for label in labels]
    shown = {"test": f"{FOCUS} === '' || {FOCUS} === datum.encoding", "value": 1.0}
    axis = alt.Axis(format="d", grid=False)
    x = alt.X("position:Q", title="Position in the text (tokens)", scale=alt.Scale(nice=False), axis=axis)
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=x,
        y=y,
        color=alt.Color("encoding:N", title=None, scale=alt.Scale(domain=labels, range=colours)),
        opacity={"condition": shown, "value": 0.1},  # pyright: ignore[reportArgumentType]
    )
    dash = alt.StrokeDash("encoding:N", title=None, scale=alt.Scale(domain=labels, range=dashes))
    tips = ["encoding:N", "position:Q", alt.Tooltip("value:Q", format=form, title=tip)]
    line = base.mark_line(strokeWidth=2).encode(strokeDash=dash)
    point = base.mark_point(size=18, filled=True).encode(tooltip=tips)
    where = alt.Chart(alt.NamedData("trained")).encode(x="at:Q")
    rule = where.mark_rule(strokeWidth=1.5, strokeDash=[4, 3])
    text = where.mark_text(align="left", baseline="bottom", dx=-4, dy=-5, fontSize=11, fontWeight="bold")
    text = text.encode(text="mark:N", y=alt.value(0))
    data = {"rows": rows, "trained": [{"at": trained, "mark": f"trained to {trained}"}]}
    chart = alt.LayerChart(layer=[rule, line, point, text], datasets=data)
    return chart.add_params(alt.param(name=FOCUS, value="")).properties(width="container", height=360)


def by_depth(one: Retrieval, trained: int) -> alt.LayerChart:
    """Which passkeys were found: depth against length, the stronger the fill, the more."""
    rows = [
        {"length": length, "depth": f"{depth:.0f} %", "order": depth, "found": share, "text": f"{share:.0%}"}
        for length, depth, share in one.cells
    ]
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=alt.X("length:O", title="Length of the text (tokens)", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("depth:O", title="Depth", sort=alt.EncodingSortField("order", order="ascending")),
        tooltip=["length:O", "depth:O", alt.Tooltip("text:N", title="found")],
    )
    scale = alt.Scale(domain=[0, 1], range=[0.05, 0.85], clamp=True)
    fill = base.mark_rect(color="#0072b2", cornerRadius=2).encode(
        opacity=alt.Opacity("found:Q", scale=scale, legend=None)
    )
    layers: list[alt.Chart] = [fill]
    data: dict[str, Any] = {"rows": rows}
    lengths = sorted({length for length, _, _ in one.cells})
    within = [length for length in lengths if length <= trained]
    if within and len(within) < len(lengths):
        data["trained"] = [{"length": max(within)}]
        edge = alt.Chart(alt.NamedData("trained")).mark_rule(strokeWidth=2, strokeDash=[4, 3])
        layers.append(edge.encode(x=alt.X("length:O", bandPosition=1)))
    depths = len({row["depth"] for row in rows})
    return alt.LayerChart(layer=layers, datasets=data).properties(width="container", height=16 * max(depths, 4))


def _markdown(page: StretchPage) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(page.head), "|" + "---|" * len(page.head), *map(line, page.rows)]) + "\n"


def _key(label: str, style: Style) -> dict[str, str]:
    return {"label": label, "colour": style.colour, "path": OUTLINES["circle"]}


def _spec(chart: alt.LayerChart) -> dict[str, Any]:
    """The figure without its theme, which the page adds, and without the address of the schema."""
    return {key: value for key, value in chart.to_dict(validate=False).items() if key not in ("config", "$schema")}
