"""Figures of a comparison, one idea each, drawn with Altair: scores by length, heat map, loss, bits by position.

Each has its axes named, the trained length marked, intervals drawn, and the colours of `styles`. A figure holds no
theme: `save` and the page add one, so that the same figure stands on a light and on a dark ground.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from lengthwise.report.colours import Style, styles
from lengthwise.report.comparison import Comparison, interval_of
from lengthwise.report.metrics import Metric

FOCUS = "focus"
"""Name of the parameter that holds the label of the encoding to bring out; empty for all. A page sets it."""

Chart = alt.LayerChart


def score_by_length(
    comparison: Comparison, metric: Metric | None = None, look: Mapping[str, Style] | None = None
) -> Chart:
    """Score against length: a line an encoding, bands for intervals, hollow points where table rows are untrained.

    Args:
        comparison: what to draw.
        metric: another one than the comparison's own.
        look: styles by encoding, for a page that shows more encodings than this comparison has.
    """
    metric = metric or comparison.metric
    rows: list[dict[str, object]] = []
    for name in comparison.encodings:
        for length in comparison.lengths:
            interval = comparison.interval(name, length, metric)
            if interval is not None:
                untrained = length > comparison.train_length and comparison.untrained_rows(name) is not None
                spread = (interval.mean[0], interval.low[0], interval.high[0])
                rows.append(_row(comparison, name, metric, spread, interval.seeds, length=length, untrained=untrained))
    scale = _length_scale(comparison, rows, "length")
    x = alt.X("length:Q", title=_length_title(comparison), scale=scale, axis=_length_axis(comparison))
    return _lines(comparison, rows, x, _score_axis(metric, rows), look, tip="length")


def heat_map(comparison: Comparison, metric: Metric | None = None) -> Chart:
    """Encoding by length with each mean as text; the stronger the fill, the better."""
    metric = metric or comparison.metric
    rows: list[dict[str, object]] = []
    for name in comparison.encodings:
        for length in comparison.lengths:
            interval = comparison.interval(name, length, metric)
            seeds = len(comparison.at(name, length, metric))
            mean = float(interval.mean[0]) if interval is not None else math.nan
            text = metric.text(mean) if interval is not None or not seeds else "diverged"
            good = metric.better(mean) if interval is not None else None
            rows.append({"encoding": comparison.label(name), "length": length, "text": text, "good": good})
    known = [float(str(row["good"])) for row in rows if row["good"] is not None]
    # Shares go from 0 to 1 whatever was seen; bits per byte have no such ends.
    ends = [0.0, 1.0] if metric.scale != 1.0 else [min(known, default=0.0), max(known, default=1.0)]
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=alt.X("length:O", title=_length_title(comparison), axis=alt.Axis(labelAngle=0)),
        y=alt.Y("encoding:N", title=None, sort=[comparison.label(name) for name in comparison.encodings]),
    )
    # Never so strong that the theme's own colour of text could not be read on it.
    scale = alt.Scale(domain=ends, range=[0.04, 0.7], clamp=True)
    fill = base.mark_rect(color="#0072b2", cornerRadius=2).encode(
        opacity=alt.Opacity("good:Q", scale=scale, legend=None),
        tooltip=[alt.Tooltip("encoding:N"), alt.Tooltip("length:O"), alt.Tooltip("text:N", title=metric.short)],
    )
    text = base.mark_text(fontSize=11).encode(text="text:N")
    layers: list[alt.Chart] = [fill, text]
    data = {"rows": rows}
    within = [length for length in comparison.lengths if length <= comparison.train_length]
    if within and len(within) < len(comparison.lengths):
        data["trained"] = [{"length": max(within), "mark": _trained(comparison)}]
        edge = alt.Chart(alt.NamedData("trained"))
        layers.append(edge.mark_rule(strokeWidth=2, strokeDash=[4, 3]).encode(x=alt.X("length:O", bandPosition=1)))
    height = 30 * len(comparison.encodings)
    return alt.LayerChart(layer=layers, datasets=data).properties(width="container", height=height)


def loss_by_step(comparison: Comparison, look: Mapping[str, Style] | None = None) -> Chart:
    """Training loss against step: every seed faint, their mean bold as far as all of them went."""
    seeds: list[dict[str, object]] = []
    means: list[dict[str, object]] = []
    for name in comparison.encodings:
        curves = [
            dict(zip(result.steps, result.losses, strict=True))
            for result in comparison.results
            if result.experiment.encoding == name
        ]
        label = comparison.label(name)
        for number, curve in enumerate(curves):
            for step, loss in curve.items():
                if math.isfinite(loss):
                    seeds.append({"encoding": label, "run": number, "step": step, "loss": loss})
        for step in sorted(set.intersection(*map(set, curves))):
            values = [curve[step] for curve in curves]
            if all(map(math.isfinite, values)):
                means.append({"encoding": label, "step": step, "loss": sum(values) / len(values)})
    losses = [float(str(row["loss"])) for row in seeds]
    x = alt.X("step:Q", title="Training step", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=6, grid=False))
    y = alt.Y("loss:Q", title="Training loss (nats per token)", **_loss_scale(losses))
    colour = _colour(comparison, look)
    faint = alt.Chart(alt.NamedData("seeds")).mark_line(strokeWidth=1).encode(x=x, y=y, color=colour, detail="run:N")
    bold = (
        alt.Chart(alt.NamedData("means")).mark_line(strokeWidth=2.2).encode(x=x, y=y, color=colour, opacity=_shown(1.0))
    )
    tips = ["encoding:N", "step:Q", alt.Tooltip("loss:Q", format=".3f")]
    bold = bold.encode(tooltip=tips, **_dash(comparison, look)).add_params(_picked())
    layers = [faint.encode(opacity=_shown(0.25)), bold]
    return _finish(layers, {"seeds": seeds, "means": means}, height=260)


def bits_by_position(comparison: Comparison, look: Mapping[str, Style] | None = None) -> Chart | None:
    """Bits per byte by position in the longest test, the trained length marked; none where the task is not text."""
    rows: list[dict[str, object]] = []
    for name in comparison.encodings:
        bins: dict[tuple[int, int], list[float]] = {}
        for result in comparison.results:
            place = result.by_position
            if result.experiment.encoding == name and place is not None:
                for low, high, bits in zip(place.edges[:-1], place.edges[1:], place.bits_per_byte, strict=True):
                    bins.setdefault((low, high), []).append(bits)
        for (low, high), values in sorted(bins.items()):
            interval = interval_of(values)
            if interval is not None:
                spread = (interval.mean[0], interval.low[0], interval.high[0])
                extra = {"position": (low + high) / 2, "bytes": f"{low} to {high - 1}", "untrained": False}
                rows.append(_row(comparison, name, comparison.metric, spread, interval.seeds, **extra))
    if not rows:
        return None
    scale = _length_scale(comparison, rows, "position")
    axis = _length_axis(comparison)
    x = alt.X("position:Q", title="Position in the sequence (bytes)", scale=scale, axis=axis)
    return _lines(comparison, rows, x, _score_axis(comparison.metric, rows), look, tip="bytes", height=260)


def _loss_scale(losses: Sequence[float]) -> dict[str, Any]:
    """Logarithmic, with lines at powers of ten, where the loss falls to a twentieth or less."""
    if losses and 0 < 20 * min(losses) <= max(losses):
        powers = range(math.floor(math.log10(min(losses))), math.ceil(math.log10(max(losses))) + 1)
        axis = alt.Axis(values=[10.0**power for power in powers], format="~g")
        return {"scale": alt.Scale(type="log", nice=False), "axis": axis}
    return {"scale": alt.Scale(zero=False), "axis": alt.Axis(tickCount=5)}


def _lines(
    comparison: Comparison,
    rows: list[dict[str, object]],
    x: alt.X,
    y: alt.Y,
    look: Mapping[str, Style] | None,
    *,
    tip: str,
    height: int = 340,
) -> Chart:
    """Bands, lines and points on one pair of axes, with the trained length marked."""
    colour = _colour(comparison, look)
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=colour)
    band = base.transform_filter("isValid(datum.low)").mark_area(tooltip=False)
    band = band.encode(y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q", opacity=_shown(0.14))
    line = base.mark_line(strokeWidth=2.2).encode(y=y, opacity=_shown(1.0), **_dash(comparison, look))
    point = base.encode(
        y=y,
        shape=_shape(comparison, look),
        opacity=_shown(1.0),
        tooltip=[alt.Tooltip("encoding:N"), alt.Tooltip(f"{tip}:N"), alt.Tooltip("text:N", title="mean"), "seeds:Q"],
    )
    full = point.transform_filter("!datum.untrained").mark_point(size=54, filled=True, opacity=1).add_params(_picked())
    hollow = point.transform_filter("datum.untrained").mark_point(size=60, filled=False, strokeWidth=1.6)
    where = alt.Chart(alt.NamedData("trained")).encode(x="at:Q")
    rule = where.mark_rule(strokeWidth=1.5, strokeDash=[4, 3])
    text = where.mark_text(align="left", baseline="bottom", dx=-4, dy=-5, fontSize=11, fontWeight="bold")
    text = text.encode(text="mark:N", y=alt.value(0))
    trained: list[dict[str, object]] = [{"at": comparison.train_length, "mark": _trained(comparison)}]
    return _finish([rule, band, line, full, hollow, text], {"rows": rows, "trained": trained}, height=height)


def _finish(layers: list[alt.Chart], data: dict[str, list[dict[str, object]]], *, height: int) -> Chart:
    # Named data stands beside the layers, so that Altair does not check every row of it again and again.
    focus = alt.param(name=FOCUS, value="")
    return alt.LayerChart(layer=layers, datasets=data).add_params(focus).properties(width="container", height=height)


def _picked() -> alt.Parameter:
    """Selection by a click on the legend, several with shift."""
    return alt.selection_point(name="picked", fields=["encoding"], bind="legend")


def _shown(opacity: float, faded: float = 0.1) -> Any:
    """Full opacity for encodings in focus, and for all where none is."""
    focus = f"{FOCUS} === '' || {FOCUS} === datum.encoding"
    test = {"test": {"and": [{"param": "picked"}, focus]}, "value": opacity}
    return {"condition": test, "value": faded * opacity}


def _look(comparison: Comparison, look: Mapping[str, Style] | None) -> list[Style]:
    chosen = look or styles(comparison.encodings)
    return [chosen[name] for name in comparison.encodings]


def _labels(comparison: Comparison) -> list[str]:
    return [comparison.label(name) for name in comparison.encodings]


def _colour(comparison: Comparison, look: Mapping[str, Style] | None) -> alt.Color:
    colours = [style.colour for style in _look(comparison, look)]
    return alt.Color("encoding:N", title=None, scale=alt.Scale(domain=_labels(comparison), range=colours))


def _shape(comparison: Comparison, look: Mapping[str, Style] | None) -> alt.Shape:
    shapes = [style.shape for style in _look(comparison, look)]
    return alt.Shape("encoding:N", title=None, scale=alt.Scale(domain=_labels(comparison), range=shapes))


def _dash(comparison: Comparison, look: Mapping[str, Style] | None) -> dict[str, Any]:
    """Dashes only where colours repeat: a legend of solid lines need not mention them."""
    dashes = [list(style.dash) or [1, 0] for style in _look(comparison, look)]
    if all(dash == [1, 0] for dash in dashes):
        return {}
    scale = alt.Scale(domain=_labels(comparison), range=dashes)
    return {"strokeDash": alt.StrokeDash("encoding:N", title=None, scale=scale)}


def _row(
    comparison: Comparison, name: str, metric: Metric, spread: Sequence[float], seeds: int, **extra: object
) -> dict[str, object]:
    mean, low, high = map(float, spread)
    text = metric.text(mean) + ("" if math.isnan(low) else f" [{metric.text(low)}–{metric.text(high)}]")
    ends = {"low": None, "high": None} if math.isnan(low) else {"low": low, "high": high}
    return {"encoding": comparison.label(name), "mean": mean, **ends, "text": text, "seeds": seeds, **extra}


def _length_scale(comparison: Comparison, rows: list[dict[str, object]], key: str) -> alt.Scale:
    """Powers of two for bytes, plain for symbols; both hold the trained length."""
    values = [comparison.train_length, *(float(str(row[key])) for row in rows)]
    ends = [min(values), max(values)]
    if _is_text(comparison):
        return alt.Scale(domain=ends, nice=False, padding=14, type="log", base=2)
    return alt.Scale(domain=ends, nice=False, padding=14, type="linear", zero=False)


def _length_axis(comparison: Comparison) -> alt.Axis:
    if _is_text(comparison):
        return alt.Axis(values=_powers(comparison.lengths), format="d", grid=False)
    return alt.Axis(tickMinStep=1, format="d", grid=False)


def _powers(lengths: Sequence[int]) -> list[int]:
    """Powers of two from about the shortest to about the longest length."""
    first, last = math.floor(math.log2(min(lengths))), math.ceil(math.log2(max(lengths)))
    return [2**power for power in range(first, last + 1)]


def _score_axis(metric: Metric, rows: list[dict[str, object]]) -> alt.Y:
    if metric.scale != 1.0:
        axis = alt.Axis(format=".0%", tickCount=5)
        return alt.Y("mean:Q", title=metric.title, scale=alt.Scale(domain=[0, 1]), axis=axis)
    values = [float(str(row[key])) for row in rows for key in ("mean", "low", "high") if row[key] is not None]
    room = 0.04 * (max(values, default=1.0) - min(values, default=0.0) or 1.0)
    domain = [min(values, default=0.0) - room, max(values, default=1.0) + room]
    return alt.Y("mean:Q", title=metric.title, scale=alt.Scale(domain=domain), axis=alt.Axis(tickCount=6))


def _length_title(comparison: Comparison) -> str:
    return f"Length ({comparison.length_counts})"


def _trained(comparison: Comparison) -> str:
    return f"trained to {comparison.train_length}"


def _is_text(comparison: Comparison) -> bool:
    return comparison.metric.name == "bits_per_byte"
