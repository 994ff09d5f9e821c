"""Figures of an analysis: reach of heads, probes, two orders, whose attention resembles whose, heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from lengthwise.report.analysis import PROBED, Group, interval, r2
from lengthwise.report.colours import Style

WIDTH = 960
"""Of all panels of a row together."""
BLUE = "#1f86cf"
GREY = "#80868e"


@dataclass(frozen=True, eq=False)
class Figure:
    """A Vega-Lite spec with the words around it."""

    title: str
    caption: str
    chart: Any

    @property
    def spec(self) -> dict[str, Any]:
        """As JSON data."""
        return self.chart.to_dict(validate=False)


def figures_of(group: Group, look: Mapping[str, Style]) -> list[Figure]:
    """All figures of a group, in the order of the page."""
    first = group.lengths[0]
    found: list[Figure] = []
    for length in group.lengths:
        at = f"{length} {group.length_counts}"
        found.append(
            Figure(
                f"How far heads look, with {at}",
                "Distance from each query to the key it attends to most, as a part of all it could see: 0 is the token "
                "itself, 1 the first one. Share of queries, over heads, examples and seeds.",
                reach_figure(group, length, look),
            )
        )
        found.append(
            Figure(
                f"Mean distance of each head, with {at}",
                "A stroke is one head of one seed, over all queries; the dashed line is attention that is even over "
                "all it sees.",
                distance_figure(group, length, look),
            )
        )
    found.append(
        Figure(
            f"What hidden states know, with {first} {group.length_counts}",
            "Part of the variance that a probe explains on examples it never saw; below 0 is worse than the mean. "
            "Dashed: shuffled labels, the control. Layer 0 is the embedding.",
            probe_figure(group, first, look),
        )
    )
    found.append(
        Figure(
            f"What order does, with {first} {group.length_counts}",
            "Left: all but the first token moved, cosine of the two states of each token. Right: the commonest token "
            "repeated after the first one, cosine of its states at two places. 1 where it knows no order.",
            order_figure(group, first, look),
        )
    )
    if any(group.pairs.values()):
        found.append(
            Figure(
                "Whose attention resembles whose",
                "One panel an encoding, one line each other one, same seed against same seed; dashed: itself in "
                "another seed, the control. Bars: 95 % intervals over seeds. Jensen-Shannon divergence of the nearest "
                "two heads, mean over layers, from 0 to 0.69.",
                pair_figure(group, look),
            )
        )
    if group.heads:
        found.append(
            Figure(
                f"Single heads on one input of {first} {group.length_counts}",
                "A row is a query, a column a key it may see; the stronger, the more attention. Point at a cell for "
                "its tokens.",
                head_figure(group),
            )
        )
    return found


def reach_figure(group: Group, length: int, look: Mapping[str, Style]) -> alt.Chart:
    """Histograms of normalized attended distance: a row an encoding, a column a layer."""
    rows: list[dict[str, Any]] = []
    for name in group.encodings:
        shares = group.mean(name, length, lambda looks: looks.attended)  # [layers, bins]
        for layer, row in enumerate(shares, 1):
            edges = np.linspace(0, 1, len(row) + 1)
            for low, high, share in zip(edges, edges[1:], row, strict=False):
                rows.append({"encoding": name, "layer": f"layer {layer}", "low": low, "high": high, "share": share})
    layers = len({row["layer"] for row in rows})
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(binSpacing=1)
        .encode(
            x=alt.X(
                "low:Q", bin="binned", title="attended distance / tokens seen", axis=alt.Axis(tickCount=5, grid=False)
            ),
            x2="high:Q",
            y=alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=2), scale=alt.Scale(nice=False)),
            color=_colour(group, look),
            row=alt.Row("encoding:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left"), spacing=14),
            column=alt.Column("layer:N", title=None, spacing=24),
            tooltip=["encoding:N", "layer:N", alt.Tooltip("low:Q", format=".1f"), alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(width=_width(layers, 90), height=54)
    )


def distance_figure(group: Group, length: int, look: Mapping[str, Style]) -> alt.FacetChart:
    """Mean distance in tokens of every head, beside that of even attention."""
    rows: list[dict[str, Any]] = []
    tokens = group.models[0].looks[length].tokens
    for model in group.models:
        for layer, heads in enumerate(model.looks[length].mean_distance, 1):
            for head, value in enumerate(heads, 1):
                what = {"encoding": model.experiment.encoding, "seed": model.experiment.seed}
                rows.append({**what, "layer": f"layer {layer}", "head": head, "back": value, "even": (tokens - 1) / 4})
    layers = len({row["layer"] for row in rows})
    base = alt.Chart()
    ticks = base.mark_tick(thickness=2, size=14, opacity=0.9).encode(
        x=alt.X("back:Q", title="tokens back", axis=alt.Axis(tickCount=5)),
        y=alt.Y("encoding:N", title=None),
        color=_colour(group, look),
        tooltip=["encoding:N", "seed:O", "head:O", alt.Tooltip("back:Q", format=".1f")],
    )
    even = base.mark_rule(strokeDash=[4, 3], color=GREY).encode(x="mean(even):Q")
    panels = alt.layer(even, ticks).properties(width=_width(layers, 90), height=22 * len(group.encodings))
    return panels.facet(column=alt.Column("layer:N", title=None), data=alt.Data(values=rows))


def probe_figure(group: Group, length: int, look: Mapping[str, Style]) -> alt.FacetChart:
    """R² by layer of each kind of probe, with its control."""
    rows: list[dict[str, Any]] = []
    for name in group.encodings:
        for asked, kind in PROBED:
            for shuffled in (False, True):
                values = group.mean(name, length, lambda looks, a=asked, k=kind, s=shuffled: r2(looks, a, k, s))
                what = {"encoding": name, "probe": f"{asked}, {kind}", "labels": "shuffled" if shuffled else "true"}
                rows += [{**what, "layer": layer, "r2": value} for layer, value in enumerate(values)]
    layers = max(row["layer"] for row in rows)
    base = alt.Chart().encode(
        x=_layer_axis(layers),
        y=alt.Y("r2:Q", title="R²", scale=alt.Scale(domain=[-0.5, 1.05], nice=False)),
        color=_colour(group, look),
        tooltip=["encoding:N", "labels:N", "layer:O", alt.Tooltip("r2:Q", format=".3f")],
    )
    line = base.mark_line(clip=True, strokeWidth=2).encode(strokeDash=_dash("labels", "shuffled"))
    points = base.mark_point(clip=True, filled=True, size=34).transform_filter("datum.labels == 'true'")
    order = [f"{asked}, {kind}" for asked, kind in PROBED]
    return (
        alt.layer(line, points)
        .properties(width=_width(2, 90), height=180)
        .facet(facet=alt.Facet("probe:N", title=None, sort=order), columns=2, data=alt.Data(values=rows))
    )


def order_figure(group: Group, length: int, look: Mapping[str, Style]) -> alt.FacetChart:
    """Cosines by layer: a token's states in two orders, and one token's states at all places."""
    rows: list[dict[str, Any]] = []
    for name in group.encodings:
        for what, values in (
            ("two orders", group.mean(name, length, lambda looks: looks.order)),
            ("one token, all places", group.mean(name, length, lambda looks: looks.places)),
        ):
            rows += [
                {"encoding": name, "what": what, "layer": layer, "cosine": value} for layer, value in enumerate(values)
            ]
    layers = max(row["layer"] for row in rows)
    base = alt.Chart().encode(
        x=_layer_axis(layers),
        y=alt.Y("cosine:Q", title="cosine", scale=alt.Scale(zero=False)),
        color=_colour(group, look),
        tooltip=["encoding:N", "layer:O", alt.Tooltip("cosine:Q", format=".4f")],
    )
    panels = alt.layer(base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=34))
    facet = alt.Facet("what:N", title=None, sort=["two orders", "one token, all places"])
    return panels.properties(width=_width(2, 90), height=200).facet(facet=facet, columns=2, data=alt.Data(values=rows))


def pair_figure(group: Group, look: Mapping[str, Style]) -> alt.FacetChart:
    """Distance of attention by length: a panel an encoding."""
    rows: list[dict[str, Any]] = []
    for length, pairs in group.pairs.items():
        for pair in pairs:
            over = interval(pair)
            mean = float(over.mean[0])
            ends = (mean, mean) if over.seeds == 1 else (float(over.low[0]), float(over.high[0]))
            what = {"length": length, "mean": mean, "low": ends[0], "high": ends[1]}
            sides = [(pair.first, pair.second), (pair.second, pair.first)]
            for base, other in sides[: 1 if pair.control else 2]:
                label = "another seed" if pair.control else "same seed"
                rows.append({**what, "base": base, "encoding": other, "against": label})
    columns = min(3, len(group.encodings))
    log = max(group.lengths) >= 4 * min(group.lengths)
    scale = alt.Scale(type="log", nice=False, padding=12) if log else alt.Scale(zero=False, nice=False, padding=12)
    base = alt.Chart().encode(
        x=alt.X(
            "length:Q",
            title=group.length_counts,
            scale=scale,
            axis=alt.Axis(values=list(group.lengths), grid=False, format="d"),
        ),
        color=_colour(group, look),
        tooltip=["base:N", "encoding:N", "against:N", "length:Q", alt.Tooltip("mean:Q", format=".3f")],
    )
    mean = alt.Y("mean:Q", title="distance (nats)")
    line = base.mark_line(strokeWidth=2).encode(y=mean, strokeDash=_dash("against", "another seed"))
    points = base.mark_point(filled=True, size=34).encode(y=mean)
    bars = base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", title="distance (nats)"), y2="high:Q")
    return (
        alt.layer(bars, line, points)
        .properties(width=_width(columns, 70), height=150)
        .facet(facet=alt.Facet("base:N", title=None), columns=columns, data=alt.Data(values=rows))
    )


def head_figure(group: Group) -> alt.Chart:
    """Attention of single heads to one input, small multiples."""
    rows: list[dict[str, Any]] = []
    for one in group.heads:
        for query, weights in enumerate(one.weights):
            for key, weight in enumerate(weights[: query + 1]):
                rows.append({"head": one.title, "query": query, "key": key, "weight": round(weight, 4)})
    names = group.heads[0].tokens
    size = len(names)
    columns = min(4, len(group.heads))
    width = min(_width(columns, 40), 260)
    place: Sequence[int] = list(range(0, size, max(1, -(-size // 6))))
    axis = alt.Axis(values=place, labelAngle=0, ticks=False)
    text = "{}"[:1] + ",".join(f"{number}:{_quoted(name)}" for number, name in enumerate(names)) + "}"
    return (
        alt.Chart(alt.Data(values=rows))
        .transform_calculate(asks=f"({text})[datum.query]", sees=f"({text})[datum.key]")
        .mark_rect(color=BLUE)
        .encode(
            x=alt.X("key:O", title="key", axis=axis),
            y=alt.Y("query:O", title="query", axis=axis),
            opacity=alt.Opacity("weight:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 1], type="sqrt")),
            facet=alt.Facet("head:N", title=None, columns=columns, sort=[one.title for one in group.heads]),
            tooltip=["asks:N", "sees:N", "query:O", "key:O", alt.Tooltip("weight:Q", format=".3f")],
        )
        .properties(width=width, height=width)
    )


def _quoted(text: str) -> str:
    """A string of Vega's expressions."""
    return "'" + text.encode("unicode_escape").decode().replace("'", "\\'") + "'"


def _width(panels: int, beside: int) -> int:
    """Of one panel, where panels stand side by side, each with some room beside it."""
    return max(70, WIDTH // panels - beside)


def _layer_axis(layers: int) -> alt.X:
    """Layers from the embedding on, with room for points at both ends."""
    scale = alt.Scale(domain=[-0.1, layers + 0.1], nice=False)
    return alt.X(
        "layer:Q", title="layer", scale=scale, axis=alt.Axis(values=list(range(layers + 1)), format="d", grid=False)
    )


def _colour(group: Group, look: Mapping[str, Style]) -> alt.Color:
    names = group.encodings
    return alt.Color("encoding:N", scale=alt.Scale(domain=names, range=[look[name].colour for name in names]))


def _dash(field: str, dashed: str) -> alt.StrokeDash:
    other = {"shuffled": "true", "another seed": "same seed"}[dashed]
    return alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=[other, dashed], range=[[1, 0], [4, 3]]))
