"""A window: tokens farther apart than its width do not see each other.

    logit(i, j) += 0 where |i - j| <= window, -inf elsewhere

Inclusive, and the token itself is not counted: `window` tokens back are seen, as with `Positions.window`. Other
packages count the token itself (keys in [i - w + 1, i]): their w is `window + 1` here. Distance is that of positions;
`Positions.window` counts order, which no map of positions changes, and skips work besides. Used in Longformer and
Mistral, among others (papers UNVERIFIED). In bidirectional attention it reaches as far ahead as back.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import DistanceBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


@encodings.register("window")
class Window(nn.Module):
    """No bias within a window of positions, -inf outside; the same for all heads.

    A query at no more than `window` from none of its keys sees nothing, and softmax has no value there: in
    self-attention this can't be, since a token is at distance 0 from itself.

    Args:
        window: greatest distance that is still seen.
        heads: number of query heads.

    Example:
        >>> import lengthwise as lw
        >>> lw.Window(1, heads=1).logit_bias(lw.Positions.step(3)).dense()
        tensor([[[-inf, -inf, 0., 0.]]])
    """

    formula: ClassVar[str] = "logit(i, j) += 0 where |i - j| <= window, -inf elsewhere"
    paper: ClassVar[str] = "in use since Beltagy et al. 2020, arXiv 2004.05150 (UNVERIFIED)"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonincreasing", "nonpositive", "pairwise"})
    example: ClassVar[str] = "window(window=64)"

    def __init__(self, window: int, heads: int) -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"Window needs at least 1 head, not {heads}")
        if not window >= 0:
            raise InvalidArgument(f"window must be at least 0 (a token then sees itself only), not {window}")
        self.window, self.heads = window, heads

    def logit_bias(self, positions: Positions) -> DistanceBias:
        """The bias at `positions`, in float32."""
        return DistanceBias(self.of_distance, positions)

    def of_distance(self, distance: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at distances of any shape."""
        values = torch.zeros_like(distance, dtype=torch.float32).masked_fill(distance.abs() > self.window, -torch.inf)
        return values.expand(self.heads, *distance.shape)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"window={self.window}, heads={self.heads}"
