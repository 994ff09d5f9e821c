"""What encodings give past the trained length, in the three ways there are: numbers, then two figures.

nothing     no value past the trained length: what a model that was never trained there knows
carried on  the function goes on: every vector past the trained length is one that no token had in training
pressed     the longer range is pressed into the trained one: vectors between those of training, closer than ever

Of a function (sinusoids, rotations, biases) the second is the encoding itself and the third `Interpolate`; a learned
table is carried on by `Extrapolate` and pressed by `Resample`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt
import torch
from torch import Tensor, nn

from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument
from lengthwise.extension import Extrapolate, Interpolate, Resample, extend
from lengthwise.report.pictures import Picture, picture

Way = Literal["nothing", "carried on", "pressed"]
TITLES: Mapping[Way, str] = {
    "nothing": "Nothing past the trained length",
    "carried on": "The function carried on",
    "pressed": "The range pressed together",
}
KINDS = {"trained": "#0072b2", "never met in training": "#d55e00", "between trained ones": "#009e73"}


@dataclass(frozen=True, eq=False)
class Panel:
    """What one encoding gives in one way.

    Args:
        encoding: its label.
        way: which of the three.
        trained: number of positions that training had.
        drawn: values at each position, as far as there are any.
        seen: the same at the trained positions, as training had them.
    """

    encoding: str
    way: Way
    trained: int
    drawn: Picture
    seen: Picture

    @property
    def kinds(self) -> list[str]:
        """Of each position, what its vector is: one of `KINDS`."""
        if self.way == "carried on":
            count = self.drawn.values.shape[1]
            return ["trained" if at < self.trained else "never met in training" for at in range(count)]
        off, step = self._off
        return ["trained" if far < 1e-4 * step else "between trained ones" for far in off.tolist()]

    @property
    def farthest(self) -> float | None:
        """Most that a vector stands from the nearest trained one, in steps of trained neighbours; None for nothing."""
        if self.way == "nothing":
            return None
        off, step = self._off
        return float(off.max()) / step

    @property
    def _off(self) -> tuple[Tensor, float]:
        """How far each vector stands from the nearest trained one, and trained neighbours from each other."""
        seen, given = self.seen.values.T.double(), self.drawn.values.T.double()
        step = float((seen[1:] - seen[:-1]).norm(dim=1).mean())
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(given, seen, compute_mode=exact).amin(1), step


def past_length(
    encodings: Mapping[str, nn.Module], dims: Dims, trained: int, *, factor: int = 2, fit: str = "fourier"
) -> list[Panel]:
    """What encodings give at `factor` times the trained length, each in the three ways.

    Args:
        encodings: by label; what embeds or rotates. A learned table has `trained` rows.
        dims: sizes of the model.
        trained: number of positions that training had.
        factor: the length drawn, over the trained one.
        fit: how a learned table is carried on; see `lengthwise.Extrapolate`.

    Raises:
        InvalidArgument: a learned table of another number of rows, a factor or a trained length below 2.
    """
    if factor < 2 or trained < 2:
        raise InvalidArgument(f"factor and trained must be at least 2, not {factor} and {trained}")
    panels: list[Panel] = []
    for label, encoding in encodings.items():
        rows = getattr(encoding, "max_position", None)
        if rows not in (None, trained):
            raise InvalidArgument(f"{label} has a table of {rows} rows, and training is said to have had {trained}")
        length = factor * trained
        if rows is None:
            carried, pressed = encoding, extend(encoding, Interpolate(factor))
        else:
            carried = extend(encoding, Extrapolate(length, fit))  # pyright: ignore[reportArgumentType]
            pressed = extend(encoding, Resample(length))
        seen = picture(encoding, dims, trained)
        ways: tuple[tuple[Way, Picture], ...] = (
            ("nothing", seen),
            ("carried on", picture(carried, dims, length)),
            ("pressed", picture(pressed, dims, length)),
        )
        panels += [Panel(label, way, trained, drawn, seen) for way, drawn in ways]
    return panels


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
            "kind:N", title=None, scale=alt.Scale(domain=list(KINDS), range=list(KINDS.values())), legend=_LEGEND
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
