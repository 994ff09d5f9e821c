"""What one encoding does, as a picture: numbers first, then a figure or lines for a terminal.

embeddings  the vector added at each position
rotation    the cosine of each pair's angle at each position
bias        what a head adds to a logit at each distance
nothing     the attention of a causal model whose logits are all equal: what the mask alone makes
"""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.attention.attend import attention_weights
from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.prepared import prepare

SHADES = " ·░▒▓█"
COLUMNS, ROWS = 256, 64
"""Of a figure, at most; more are drawn as evenly spaced ones of them."""
WHOLE = 2048
"""Most positions in a picture of whole attention, which holds the square of them."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A grid of numbers with names.

    Args:
        title: what is seen.
        x: name of the columns.
        y: name of the rows.
        values: `[rows, columns]`.
    """

    title: str
    x: str
    y: str
    values: Float[Tensor, "rows columns"]


def picture(encoding: nn.Module, dims: Dims, length: int = 64) -> Picture:
    """What an encoding does at the first `length` positions of a model of these sizes.

    Raises:
        InvalidArgument: more than 2048 positions of an encoding that acts on whole logits, or on nothing.
    """
    positions = Positions.sequence(length, causal=True)
    with torch.no_grad():
        prepared = prepare(encoding, positions)
        if prepared.embed is not None:
            added = prepared.embed(torch.zeros(1, length, dims.dim))[0]
            return Picture("added to the token embedding", "position", "dim", added.T)
        if prepared.rotation is not None:
            return Picture("cosine of the angle of each pair", "position", "pair of dims", prepared.rotation.q_cos.T)
        if prepared.bias is not None:
            # Of the last query alone, since all of them would take the square of the length; nearest key first.
            last = prepare(encoding, Positions.step(length - 1)).bias
            assert last is not None
            return Picture("added to the logit", "distance", "head", last.dense()[..., -1, :].flip(-1))
        if length > WHOLE:
            raise InvalidArgument(
                f"{type(encoding).__name__} is shown as whole attention, for at most {WHOLE} positions, not {length}"
            )
        q = k = torch.zeros(1, dims.heads, length, dims.head_dim)
        weights = attention_weights(q, k, prepared if prepared.logits is not None else None)[0].mean(0)
        weights = weights / weights.amax(-1, keepdim=True)
    return Picture("attention where all q·k are equal, as a share of each row's largest", "key", "query", weights)


def as_lines(drawn: Picture, rows: int = 16, columns: int = 64) -> list[str]:
    """The picture in shades of text, dark to bright from the smallest value to the largest."""
    values = drawn.values.float()
    grid = torch.nn.functional.adaptive_avg_pool2d(
        values[None, None], (min(rows, values.shape[0]), min(columns, values.shape[1]))
    )[0, 0]
    low, high = float(values.min()), float(values.max())
    level = ((grid - low) / (high - low or 1.0) * (len(SHADES) - 1)).round().long().clamp(0, len(SHADES) - 1)
    body = ["".join(SHADES[int(shade)] for shade in row) for row in level]
    scale = f"{drawn.title}: '{SHADES[0]}' {low:.3g} to '{SHADES[-1]}' {high:.3g}"
    across = f"across: {drawn.x} 0 to {values.shape[1] - 1}, down: {drawn.y} 0 to {values.shape[0] - 1}"
    return [scale, *body, across]


def as_chart(drawn: Picture, title: str) -> alt.LayerChart:
    """The picture as a heat map."""
    values = drawn.values.double()
    rows = [
        {drawn.x: x, drawn.y: y, "value": float(values[y, x])}
        for y in _spread(values.shape[0], ROWS)
        for x in _spread(values.shape[1], COLUMNS)
    ]
    signed = float(values.min()) < 0 < float(values.max())
    scale = alt.Scale(scheme="blueorange", domainMid=0) if signed else alt.Scale(scheme="viridis")
    axis = alt.Axis(labelOverlap=True, labelAngle=0, grid=False, ticks=False)
    heat = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            x=alt.X(f"{drawn.x}:O", axis=axis, title=drawn.x),
            y=alt.Y(f"{drawn.y}:O", axis=axis, title=drawn.y),
            color=alt.Color("value:Q", scale=scale, title="value"),
        )
        .properties(height=max(120, min(320, 16 * values.shape[0])))
    )
    return alt.LayerChart(layer=[heat], title=alt.Title(title, subtitle=drawn.title, anchor="start"))


def _spread(count: int, most: int) -> list[int]:
    """All places from 0 to `count - 1`, or `most` of them, evenly spaced from the first to the last."""
    if count <= most:
        return list(range(count))
    return [place * (count - 1) // (most - 1) for place in range(most)]
