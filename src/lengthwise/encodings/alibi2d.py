"""ALiBi on a plane (CROMA, Fuller et al. 2023, 2311.00566, id UNVERIFIED).

    logit(i, j) += -m_h sqrt((row_i - row_j)^2 + (column_i - column_j)^2),   m_h the slopes of ALiBi

Distances are in units of positions: patches, in the published code, which knows square grids only. What has no place
on the grid, a class token say, needs a position from the caller.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import PairBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.slopes import alibi_slopes


@encodings.register("alibi2d")
class ALiBi2D(nn.Module):
    """A penalty that grows in proportion to the distance on a plane, at a fixed slope for each head.

    Args:
        heads: number of query heads.

    Example:
        >>> import torch, lengthwise as lw
        >>> place = torch.tensor([[[0, 0], [3, 4]]])  # (row, column) of two patches
        >>> lw.ALiBi2D(heads=8).logit_bias(lw.Positions(place, place, causal=False)).dense()[0, 0]
        tensor([[-0.0000, -2.5000],
                [-2.5000, -0.0000]])
    """

    formula: ClassVar[str] = "logit(i, j) += -m_h |p_i - p_j|,  p = (row, column),  m_h = 2^(-8h/heads)"
    paper: ClassVar[str] = "Fuller et al. 2023, arXiv 2311.00566"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonincreasing", "nonpositive", "pairwise"})
    axes: ClassVar[int] = 2

    def __init__(self, heads: int) -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"ALiBi2D needs at least 1 head, not {heads}")
        self.heads = heads

    @property
    def slopes(self) -> list[float]:
        """The slope of each head, those of ALiBi."""
        return alibi_slopes(self.heads)

    def logit_bias(self, positions: Positions) -> PairBias:
        """The bias at `positions [batch or 1, length, 2]`, in float32."""
        return PairBias(self.of_pair, positions, self.axes)

    def of_pair(self, q: Tensor, k: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at query and key positions `[..., 2]` whose shapes broadcast."""
        apart = (q - k).to(widest_float(q.device))
        far = torch.linalg.vector_norm(apart, dim=-1).float()  # its gradient at 0 is 0, where that of sqrt is not
        slopes = torch.tensor(self.slopes, device=far.device, dtype=torch.float32)
        return slopes.view(-1, *[1] * far.dim()) * -far

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}"
