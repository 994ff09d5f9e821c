"""Your own encoding in one file: a module with one method, registered under a name."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.encodings import register
from lengthwise.models import Decoder, ModelConfig


@register("square_root")
class SquareRoot(nn.Module):
    """logit(i, j) += -s_h sqrt(i - j), with a learned slope for each head."""

    claims = frozenset({"translation_invariant", "pairwise"})

    def __init__(self, heads: int, slope: float = 0.5) -> None:
        super().__init__()
        self.slopes = nn.Parameter(torch.full((heads,), slope))

    def logit_bias(self, positions: lw.Positions) -> lw.Bias:
        return lw.DistanceBias(self.of_distance, positions)

    def of_distance(self, distance: Tensor) -> Tensor:
        return -self.slopes.view(-1, *[1] * distance.dim()) * distance.abs().sqrt()  # [heads, *distance]


torch.manual_seed(0)
config = ModelConfig(vocabulary=50, dim=32, layers=2, heads=4)
encoding = lw.build("square_root(slope=1.0)", config.dims())  # heads comes from the model's sizes
print("acts on:", lw.sites(encoding))
model = Decoder(config, encoding)
model(torch.arange(20)[None]).sum().backward()
print("gradient of the slopes:", [round(x, 2) for x in encoding.slopes.grad.tolist()])
print("continues:", model.generate(torch.tensor([[1, 2, 3]]), 5)[0].tolist())
