"""Swin v2's continuous bias: a network of offsets on a logarithmic scale (Liu et al. 2021, 2111.09883, id UNVERIFIED).

    logit(i, j) += 16 sigmoid(f_h(u(row_i - row_j), u(column_i - column_j))),
    u(x) = sign(x) log2(1 + |8 x / (W - 1)|) / 3,   f = Linear(2, 512), ReLU, Linear(512, heads) without bias

W is the side of the window, or of the window at which the model was trained before: a larger window then extrapolates
on the logarithmic scale. Only the bias is here. Swin v2 adds it to cosines of queries and keys, times a learned factor:
normalize q and k, pass `scale=1.0`. `transformers` divides a window of one row by nothing and one of one column by 0;
here a side of 1 counts as one of 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import PairBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


@encodings.register("log_cpb")
class LogCPB(nn.Module):
    """A bias between 0 and 16 from a small network of the offset of two patches.

    Any offset has a value, inside the window or not. The network runs on every pair: `hidden` numbers each.

    Args:
        heads: number of query heads.
        window: rows and columns of the window.
        pretrained_window: those of the model's first training, where it had others.
        hidden: width of the network's hidden layer.

    Example:
        >>> import torch, lengthwise as lw
        >>> lw.LogCPB(heads=3).coordinates(torch.tensor([[0.0, 1.0], [-1.0, 7.0]]))
        tensor([[ 0.0000,  0.3665],
                [-0.3665,  1.0566]])
    """

    formula: ClassVar[str] = "logit(i, j) += 16 σ(f_h(u(Δrow), u(Δcolumn))),  u(x) = sign(x) log2(1 + |8x/(W-1)|) / 3"
    paper: ClassVar[str] = "Liu et al. 2021, arXiv 2111.09883"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})
    axes: ClassVar[int] = 2

    def __init__(
        self,
        heads: int,
        window: Sequence[int] = (8, 8),
        pretrained_window: Sequence[int] | None = None,
        hidden: int = 512,
    ) -> None:
        super().__init__()
        if heads < 1 or hidden < 1:
            raise InvalidArgument(f"LogCPB needs at least 1 head and 1 hidden unit, not {heads} and {hidden}")
        for name, sides in (
            ("window", window),
            ("pretrained_window", window if pretrained_window is None else pretrained_window),
        ):
            if len(sides) != 2 or not all(side >= 1 for side in sides):
                raise InvalidArgument(f"{name} must be (rows, columns), both at least 1, not {sides}")
        self.heads, self.hidden, self.window = heads, hidden, tuple(window)
        self.pretrained_window = None if pretrained_window is None else tuple(pretrained_window)
        self.hidden_weight = nn.Parameter(torch.empty(hidden, 2))
        self.hidden_bias = nn.Parameter(torch.empty(hidden))
        self.head_weight = nn.Parameter(torch.empty(heads, hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the network anew, as `nn.Linear` does."""
        for part, inputs in ((self.hidden_weight, 2), (self.hidden_bias, 2), (self.head_weight, self.hidden)):
            nn.init.uniform_(part, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))

    def logit_bias(self, positions: Positions) -> PairBias:
        """The bias at `positions [batch or 1, length, 2]`, differentiable in the network."""
        return PairBias(self.of_pair, positions, self.axes)

    def of_pair(self, q: Tensor, k: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at query and key positions `[..., 2]` whose shapes broadcast."""
        return self.of_offset(q - k)

    def of_offset(self, offset: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at offsets (rows, columns) `[..., 2]`."""
        wide = torch.promote_types(self.head_weight.dtype, torch.float32)  # a bias is never narrower
        place = self.coordinates(offset.to(wide))
        with torch.autocast(offset.device.type, enabled=False):
            hidden = nn.functional.linear(place, self.hidden_weight.to(wide), self.hidden_bias.to(wide)).relu()
            values = nn.functional.linear(hidden, self.head_weight.to(wide))
        return 16 * values.movedim(-1, 0).sigmoid()

    def coordinates(self, offset: Float[Tensor, "... 2"]) -> Float[Tensor, "... 2"]:
        """Offsets on the logarithmic scale u, 0 at 0."""
        sides = self.window if self.pretrained_window is None else self.pretrained_window
        unit = torch.tensor([8.0 / max(side - 1, 1) for side in sides], device=offset.device, dtype=offset.dtype)
        return offset.sign() * torch.log1p((offset * unit).abs()) / math.log(8)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"heads={self.heads}, window={self.window}, pretrained_window={self.pretrained_window}, "
            f"hidden={self.hidden}"
        )
