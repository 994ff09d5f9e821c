"""Fixed sinusoids of two coordinates, half of the width for each (MoCo-v3 and MAE).

    x_t <- x_t + [PE[column_t] ; PE[row_t]],   PE[p] = [sin(p w_m) ; cos(p w_m)],   w_m = base^(-m / (dim/4))

Chen et al. 2021 (2104.02057, id UNVERIFIED) and He et al. 2021 (2111.06377, id UNVERIFIED); the numbers are those of
`facebookresearch/mae`, `util/pos_embed.py`. That code calls its first half "h", but it builds the grid with the width
first, so that the first half encodes the **column**. Trained checkpoints hold that table; it is the default here, and
`first="row"` is what the name would say. The published table has a row of zeros for the class token, which has no
place in the grid: add positions to the patches before the class token joins them.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.sinusoids import check_sinusoids, sinusoids

FIRST = ("column", "row")


@encodings.register("sinusoidal2d")
class Sinusoidal2D(nn.Module):
    """Sinusoids of the column in one half of the width, of the row in the other.

    Args:
        dim: width of the token embeddings, a multiple of 4.
        base: ratio that sets the lowest frequency.
        first: which coordinate the first half encodes; `"column"` is the published table.

    Raises:
        InvalidArgument: a dim that 4 does not divide, a base of 0 or below, an unknown `first`; when called,
            positions that have not two axes (row, column).

    Example:
        >>> import torch, lengthwise as lw
        >>> grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))[None]  # [1, 6, 2]: (row, column), row by row
        >>> positions = lw.Positions(grid, grid, causal=False)
        >>> lw.Sinusoidal2D(dim=8).embed_positions(torch.zeros(1, 6, 8), positions).shape
        torch.Size([1, 6, 8])
    """

    formula: ClassVar[str] = "x_t <- x_t + [PE[column_t] ; PE[row_t]],  frequencies base^(-m / (dim/4))"
    paper: ClassVar[str] = "Chen et al. 2021, arXiv 2104.02057; He et al. 2021, arXiv 2111.06377"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})
    axes: ClassVar[int] = 2

    def __init__(self, dim: int, base: float = 10000.0, first: Literal["column", "row"] = "column") -> None:
        super().__init__()
        if dim < 4 or dim % 4:
            raise InvalidArgument(
                f"Sinusoidal2D needs a dim that 4 divides, for a sine and a cosine of each coordinate, not {dim}"
            )
        check_sinusoids(dim, base, "half")
        if first not in FIRST:
            raise InvalidArgument(f"unknown first {first!r}: {nearest(first, FIRST)}")
        self.dim, self.base = dim, float(base)
        self.first: Literal["column", "row"] = first

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the sinusoids of each row and column to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        return x + self.table(positions.several_axes(2)[0]).to(x.dtype)

    def table(self, place: Tensor) -> Float[Tensor, "... dim"]:
        """Sinusoids of positions `[..., 2]` (row, column), float32."""
        row, column = (sinusoids(one, self.dim // 2, self.base, "half") for one in place.unbind(-1))
        halves = (column, row) if self.first == "column" else (row, column)
        return torch.cat(halves, dim=-1)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.dim}, base={self.base:g}, first={self.first!r}"
