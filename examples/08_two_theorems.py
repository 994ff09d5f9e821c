"""Two theorems as weights that run: a decoder without any encoding that knows positions and distances.

`python examples/08_two_theorems.py [FILE]` writes the figure of docs/theorems.md into FILE, else into a temporary one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import altair as alt
import torch

from lengthwise.analysis.constructions import absolute_position, read_positions, relative_position
from lengthwise.analysis.record import record
from lengthwise.report.theme import save

LENGTH = 64
TYPES = (torch.float64, torch.float32)
tokens = torch.randint(1, 16, (1, 2 * LENGTH), generator=torch.Generator().manual_seed(0))
tokens[0, 0] = 0  # <bos>
true = torch.arange(1, 2 * LENGTH + 1)

print(f"positions that layer 1 of a decoder built for {LENGTH} writes:")
places = [1, 2, 3, 32, LENGTH, LENGTH + 1, 96, 2 * LENGTH]
print("true   ", *(f"{place:8d}" for place in places))
rows: list[dict[str, object]] = []
for dtype in TYPES:
    name = str(dtype).removeprefix("torch.")
    found = read_positions(absolute_position(LENGTH, dtype=dtype), tokens)[0]
    print(name, *(f"{found[place - 1].item():8.4f}" for place in places))
    error = (found - true)[:LENGTH].abs().max().item()
    print(
        f"{name}: largest error up to {LENGTH} is {error:.1e}; all differ: {found[:LENGTH].unique().numel() == LENGTH}"
    )
    for t, f in zip(true.tolist(), found.tolist(), strict=True):
        rows.append({"type": name, "true": t, "found": f, "missed": abs(f - t)})
nowhere = tokens.clone()
nowhere[0, 0] = 5
nothing = read_positions(absolute_position(LENGTH), nowhere)[0, :LENGTH].unique().tolist()
print(f"without <bos> in front, each of the first {LENGTH} tokens gets the position {nothing}")

print("\nlogits of layer 2 by distance, one token repeated after <bos>, less the logit at distance 0:")
same = torch.full((1, 2 * LENGTH), 3)
same[0, 0] = 0
steps = [0, 1, 2, 4, 8, 16, 32]
print(f"{'':44}", *(f"{step:8d}" for step in steps))
for what, waves, slope in (("slope 0.5", (), 0.5), ("cos(d / 2) + cos(d / 8)", ((0.5, 1.0), (0.125, 1.0)), 0.0)):
    for dtype in TYPES:
        model = relative_position(LENGTH, slope=slope, waves=waves, dtype=dtype)
        logits = record(model, same).logits[1][0, 0]
        for query in (40, 60, 100):
            seen = logits[query] - logits[query, query]
            head = f"{what}, {str(dtype)[6:]}, query {query + 1}"
            print(f"{head:44}"[:44], *(f"{seen[query - step].item():8.4f}" for step in steps))

colour = alt.Color("type:N", title=None, scale=alt.Scale(range=["#d55e00", "#0072b2"]))
base = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("true:Q", title="true position", scale=alt.Scale(nice=False)))
y = alt.Y("found:Q", title="position in the hidden state")
exact = base.mark_line(strokeWidth=1, strokeDash=[2, 3], color="#80868e").encode(y="true:Q")
edge = alt.Chart(alt.Data(values=[{"x": LENGTH}])).mark_rule(strokeDash=[4, 3]).encode(x="x:Q")
wide = base.mark_line(strokeWidth=6, opacity=0.4).transform_filter("datum.type == 'float64'").encode(y=y, color=colour)
thin = base.mark_line(strokeWidth=1.5).transform_filter("datum.type == 'float32'").encode(y=y, color=colour)
missed = alt.Y(
    "missed:Q", title="error, where not 0", scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e", tickCount=6)
)
errors = base.mark_point(size=14, filled=True).transform_filter("datum.missed > 0").encode(y=missed, color=colour)
panels = [alt.layer(exact, edge, wide, thin), alt.layer(edge, errors)]
figure = alt.concat(*(panel.properties(width=330, height=240) for panel in panels), spacing=40)
with tempfile.TemporaryDirectory() as temporary:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(temporary) / "theorems.png")
    print("\nwrote", save(figure, path).name)
