"""Past the trained length: nothing, the function carried on, or the range pressed together; a table and two figures.

`python examples/06_past_the_trained_length.py [FOLDER]` writes the figures into FOLDER, else into a temporary one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

import lengthwise as lw
from lengthwise.report.past_length import past_length
from lengthwise.report.past_length_figures import curves, heat_maps
from lengthwise.report.theme import save

TRAINED = 16
DIMS = lw.Dims(dim=16, heads=2, head_dim=16, max_length=TRAINED)

# A smooth random table stands for a trained one: each dim is a slow wave and a faster one.
torch.manual_seed(3)
place = torch.arange(TRAINED)[:, None]
table = sum(torch.sin(place / period + 6.3 * torch.rand(16)) * torch.randn(16) for period in (3.0, 7.0))
assert isinstance(table, torch.Tensor)

encodings = {
    "learned": lw.Learned(DIMS.dim, TRAINED).with_table(table),
    "sinusoidal": lw.Sinusoidal(DIMS.dim, base=100.0),
    "rotary": lw.Rotary(DIMS.head_dim, base=100.0),
}
panels = past_length(encodings, DIMS, TRAINED)

print(f"farthest from the nearest trained vector, in steps of trained neighbours, at {2 * TRAINED} positions:")
print(f"{'':12}{'carried on':>12}{'pressed':>12}")
for name in encodings:
    far = {panel.way: panel.farthest for panel in panels if panel.encoding == name}
    print(f"{name:12}{far['carried on']:12.2f}{far['pressed']:12.2f}")

with tempfile.TemporaryDirectory() as temporary:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
    for chart, title in ((curves(panels), "past_length"), (heat_maps(panels), "past_length_all_dims")):
        print("wrote", save(chart, folder / f"{title}.png", scale=1.5).name)
