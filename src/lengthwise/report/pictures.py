"""What one encoding does, as a picture: numbers first, then a figure or lines for a terminal.

embeddings  the vector added at each position
rotation    the cosine of each pair's angle at each position
bias        what a head adds to a logit at each distance
nothing     the attention of a causal model whose logits are all equal: what the mask alone makes
all else    the attention of one and the same vector at every position
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
from lengthwise.prepared import Prepared, prepare
from lengthwise.rotation import Rotation
from lengthwise.sites import claims, direction

SHADES = " ·░▒▓█"
COLUMNS, ROWS = 256, 64
"""Of a figure, at most; more are drawn as evenly spaced ones of them."""
WIDEST = 64
"""Most rows and columns of a plane."""
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

    Positions of several axes run along the diagonal, (0, 0), (1, 1), ...; a bias of two axes is shown as a plane.

    Raises:
        InvalidArgument: more than 2048 positions of an encoding that acts on whole logits, or on nothing.
    """
    axes = getattr(encoding, "axes", 1)
    with torch.no_grad():
        prepared = prepare(encoding, _along(length, axes, direction(encoding) != "bidirectional"))
        if prepared.embed is not None:
            added = prepared.embed(torch.zeros(1, length, dims.dim))[0]
            return Picture("added to the token embedding", "position", "dim", added.T)
        rotation = prepared.rotation
        if isinstance(rotation, Rotation):
            cos = rotation.q_cos.flatten(0, -3)[0] if rotation.q_cos.dim() > 2 else rotation.q_cos  # of the first head
            scaled = "norm_preserving" not in claims(encoding)
            title = "cosine of the angle of each pair" + (", times its factor" if scaled else "")
            return Picture(title, "position", "pair of dims", cos.T)
        if prepared.bias is not None and axes == 2:
            return _plane(encoding, length)
        if prepared.bias is not None:
            # Of the last query alone, since all of them would take the square of the length; nearest key first.
            last = prepare(encoding, Positions.step(length - 1)).bias
            assert last is not None
            values = last.dense()[..., -1, :].flip(-1).flatten(0, -2)
            if not bool(values.isinf().any()):
                return Picture("added to the logit", "distance", "head", values)
            floor = float(values[values.isfinite()].min()) - 1
            return Picture(f"added to the logit, -inf drawn as {floor:g}", "distance", "head", values.clamp(min=floor))
        if length > WHOLE:
            raise InvalidArgument(
                f"{type(encoding).__name__} is shown as whole attention, for at most {WHOLE} positions, not {length}"
            )
        return _whole(prepared, dims, length)


def _along(length: int, axes: int, causal: bool = True) -> Positions:
    if axes == 1:
        return Positions.sequence(length, causal)
    place = torch.arange(length)[None, :, None].expand(1, length, axes)
    return Positions(place, place, causal=causal)


def _plane(encoding: nn.Module, length: int) -> Picture:
    side = min(length, WIDEST, *([limit] if (limit := getattr(encoding, "max_position", None)) else []))
    middle = torch.full((1, 1, 2), side // 2)
    grid = torch.cartesian_prod(torch.arange(side), torch.arange(side))[None]
    bias = prepare(encoding, Positions(middle, grid, causal=False)).bias
    assert bias is not None
    values = bias.dense().flatten(0, -3)[0, 0].view(side, side)
    return Picture("added to the logit of the middle query by head 0", "column of the key", "row of the key", values)


def _whole(prepared: Prepared, dims: Dims, length: int) -> Picture:
    """Attention itself: of equal q·k where the encoding adds nothing, else of random queries, keys, hidden states."""
    if prepared.logits is None and prepared.rotation is None and not prepared.readers:
        q = k = torch.zeros(1, dims.heads, length, dims.head_dim)
        weights = attention_weights(q, k, positions=prepared.positions)[0].mean(0)
        title = "attention where all q·k are equal, as a share of each row's largest"
    else:
        generator = torch.Generator().manual_seed(0)
        hidden = torch.randn(1, length, dims.dim, generator=generator)
        q = torch.randn(1, dims.heads, 1, dims.head_dim, generator=generator).expand(-1, -1, length, -1)
        k = q[:, :: dims.heads // dims.kv_heads]
        weights = attention_weights(q, k, prepared.read(hidden)[0])[0].mean(0)
        title = "attention of one vector to itself at every position, as a share of each row's largest"
    weights = weights / weights.amax(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return Picture(title, "key", "query", weights)


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
