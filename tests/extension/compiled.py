"""Compiles dynamic methods, in a process without the shape checks of these tests, which no compiler follows.

Prints the number of graphs that all of them together take over five lengths, two of them past the trained one.
"""

from __future__ import annotations

import torch
from torch._dynamo.testing import CompileCounter

import lengthwise as lw

SPECS = (
    "rotary + dynamic_ntk(factor=2)",
    "rotary + dynamic_yarn()",
    "rotary + longrope(short_factor=1.0, long_factor=4.0, factor=4)",
    "mrope + dynamic_yarn(ramp='rotations')",
    "sinusoidal + dynamic_ntk(factor=2)",
)
ENCODINGS = [lw.build(spec, lw.Dims(dim=16, heads=1, max_length=64)) for spec in SPECS]


def act(x: torch.Tensor, positions: lw.Positions) -> list[torch.Tensor]:
    return [
        encoding.rotation(positions).q(x)
        if hasattr(encoding, "rotation")
        else encoding.embed_positions(x[0], positions)
        for encoding in ENCODINGS
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    counter = CompileCounter()
    compiled = torch.compile(act, fullgraph=True, backend=counter)
    for length in (40, 63, 64, 65, 200):
        x, positions = torch.randn(1, 1, length, 16), lw.Positions.sequence(length)
        torch.testing.assert_close(compiled(x, positions), act(x, positions), rtol=1e-5, atol=1e-5)
    print(counter.frame_count)
