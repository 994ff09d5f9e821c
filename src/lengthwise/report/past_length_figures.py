"""Two figures of what encodings give past the trained length: a row an encoding, a column a way.

The numbers are those of `past_length`. Every plot holds the trained length as a dashed line, and the ground past it is
shaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.report.past_length import KINDS, Panel, Way

TITLES: Mapping[Way, str] = {
    "nothing": "Nothing past the trained length",
    "carried on": "The function carried on",
    "pressed": "The range pressed together",
}
COLOURS = dict(zip(KINDS, ("#0072b2", "#d55e00", "#009e73"), strict=True))


def curves(panels: Sequence[Panel], *, width: int = 230, height: int = 120) -> alt.ConcatChart:
    """One number of each encoding against position: the one that leaves its trained values the most when carried on.

    A row an encoding, a column a way. Colours say whether a value is a trained one.
    """
    charts: list[alt.LayerChart] = []
    for panel in panels:
        line = _leaving(panels, panel.encoding)
        end = _end(panels)
        rows = [
            {"position": at, "value": value, "kind": kind}
            for at, (value, kind) in enumerate(zip(panel.drawn.values[line].tolist(), panel.kinds, strict=True))
        ]
        every = [one.drawn.values[line] for one in panels if one.encoding == panel.encoding]
        low, high = float(torch.cat(every).min()), float(torch.cat(every).max())
        room = 0.12 * (high - low or 1.0)
        name = f"{panel.drawn.y.removesuffix(' of dims')} {line}"
        base = alt.Chart(alt.Data(values=rows)).encode(
            x=_x(panel, panels, end),
            y=alt.Y(
                "value:Q",
                title=[panel.encoding, name] if panel.way == "nothing" else None,
                scale=alt.Scale(domain=[low - room, high + room], nice=False),
                axis=alt.Axis(tickCount=3, format=".2~f"),
            ),
        )
        colour = alt.Color(
            "kind:N", title=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=_LEGEND
        )
        path = base.mark_line(strokeWidth=1, opacity=0.5, color="#8a929b")
        points = base.mark_point(size=26, filled=True, opacity=1).encode(color=colour)
        charts.append(_panel([path, points], panel, panels, (width, height), edge=panel.trained - 0.5))
    return alt.concat(*charts, columns=len(TITLES), spacing=14)


def heat_maps(panels: Sequence[Panel], *, width: int = 230, height: int = 120) -> alt.ConcatChart:
    """All numbers of each encoding as colours, position across: a row an encoding, a column a way."""
    charts: list[alt.LayerChart] = []
    end = _end(panels)
    for panel in panels:
        most = float(panel.seen.values.abs().max())  # what is carried on far past it has the last colour
        rows = [
            {"position": at, "next": at + 1, "line": line, "value": value}
            for line, values in enumerate(panel.drawn.values.tolist())
            for at, value in enumerate(values)
        ]
        cells = (
            alt.Chart(alt.Data(values=rows))
            .mark_rect()
            .encode(
                x=_x(panel, panels, end),
                x2="next:Q",
                y=alt.Y(
                    "line:O",
                    title=[panel.encoding, panel.drawn.y] if panel.way == "nothing" else None,
                    axis=alt.Axis(labelOverlap=True, ticks=False, labelAngle=0),
                ),
                color=alt.Color(
                    "value:Q",
                    scale=alt.Scale(
                        type="quantize", scheme=alt.SchemeParams(name="blueorange", count=15), domain=[-most, most]
                    ),
                    legend=None,
                ),
            )
        )
        charts.append(_panel([cells], panel, panels, (width, height), edge=panel.trained))
    said = "Blue is below 0 and orange above; the last colour of each also stands for all past the values of training"
    caption = alt.Title(said, orient="bottom", anchor="start", fontSize=11, fontWeight="normal", offset=8)
    return alt.concat(*charts, columns=len(TITLES), spacing=14, title=caption).resolve_scale(color="independent")


_LEGEND = alt.Legend(orient="bottom", symbolSize=80)


def _leaving(panels: Sequence[Panel], encoding: str) -> int:
    """The row of the picture that leaves the range of its trained values the most, for its size."""
    for panel in panels:
        if panel.encoding == encoding and panel.way == "carried on":
            seen, given = panel.seen.values, panel.drawn.values
            above = given.amax(1) - seen.amax(1)
            below = seen.amin(1) - given.amin(1)
            return int(torch.maximum(above, below).argmax())
    raise InvalidArgument(f"{encoding} has no panel that is carried on")


def _end(panels: Sequence[Panel]) -> int:
    return max(panel.drawn.values.shape[1] for panel in panels)


def _x(panel: Panel, panels: Sequence[Panel], end: int) -> alt.X:
    last = panel.encoding == panels[-1].encoding
    ticks = [0, panel.trained // 2, panel.trained, *range(3 * panel.trained // 2, end + 1, panel.trained // 2)]
    return alt.X(
        "position:Q",
        title="Position" if last else None,
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(values=ticks, format="d", grid=False),
    )


def _panel(
    layers: list[alt.Chart], panel: Panel, panels: Sequence[Panel], size: tuple[int, int], *, edge: float
) -> alt.LayerChart:
    """Marks on the ground that says where training ended."""
    width, height = size
    end = _end(panels)
    first = panel.encoding == panels[0].encoding
    where = alt.Chart(alt.Data(values=[{"from": edge, "to": end, "middle": (edge + end) / 2}]))
    ground = where.mark_rect(color="#8a929b", opacity=0.13).encode(x="from:Q", x2="to:Q")
    rule = where.mark_rule(strokeWidth=1.5, strokeDash=[4, 3]).encode(x="from:Q")
    marks: list[alt.Chart] = [ground, *layers, rule]
    if panel.way == "nothing":
        text = where.mark_text(fontSize=11, text="no value")
        marks.append(text.encode(x="middle:Q", y=alt.value(height / 2)))
    if first:
        text = where.mark_text(align="left", baseline="bottom", dx=2, dy=-3, fontSize=10, text="longer than trained")
        marks.append(text.encode(x="from:Q", y=alt.value(0)))
    title = alt.Title(TITLES[panel.way] if first else "", anchor="start", frame="group", fontSize=13, offset=18)
    return alt.LayerChart(layer=marks, title=title).properties(width=width, height=height)
