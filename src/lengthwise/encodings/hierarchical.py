"""A learned table of n rows that serves n^2 positions, by two digits of the position (Su 2020, kexue.fm/archives/7947).

    u_i = (E_i - a E_0) / (1 - a)
    x_t <- x_t + a u[p // n] + (1 - a) u[p mod n]

Built to stretch a trained BERT: below n the result is E[p] to the bit, so that a trained table is loaded as it is. The
sum above equals E[p mod n] + a / (1 - a) (E[p // n] - E_0), which is the form computed. At a = 0.5 both digits weigh
the same and position (a, b) is position (b, a); at 0 the high digit is lost and at 1 there is no u: these are refused.
The code is `bojone/bert4keras`, `PositionEmbedding` in `bert4keras/layers.py`; 0.4 is its default.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, PositionOutOfRange
from lengthwise.positions import Positions


@encodings.register("hierarchical")
class Hierarchical(nn.Module):
    """A learned vector for each position, and past the table the vectors of both digits of the position.

    Args:
        dim: width of the token embeddings.
        max_length: number n of rows in the table; n^2 positions can be told apart.
        alpha: weight of the high digit, above 0 and below 1, not 0.5.
        init_std: standard deviation of the first values.

    Raises:
        InvalidArgument: sizes below 1, or an alpha that can't tell positions apart.
        PositionOutOfRange: when called with a position of n^2 or more.

    Example:
        >>> import torch, lengthwise as lw
        >>> longer = lw.Hierarchical(dim=8, max_length=512)
        >>> longer.max_position
        262144
    """

    formula: ClassVar[str] = "x_t <- x_t + α u[p // n] + (1 - α) u[p mod n],  u_i = (E_i - α E_0) / (1 - α)"
    paper: ClassVar[str] = "Su 2020, kexue.fm/archives/7947"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})

    def __init__(self, dim: int, max_length: int, alpha: float = 0.4, init_std: float = 0.02) -> None:
        super().__init__()
        if dim < 1 or max_length < 1:
            raise InvalidArgument(f"Hierarchical needs dim and max_length of at least 1, not {dim} and {max_length}")
        if not 0 < alpha < 1 or alpha == 0.5:
            raise InvalidArgument(
                "alpha must be above 0 and below 1, and not 0.5, where both digits of a position would weigh the same "
                f"and two positions share a vector; it is {alpha}, and 0.4 is usual"
            )
        if not init_std >= 0:
            raise InvalidArgument(f"init_std must be at least 0, not {init_std}")
        self.alpha, self.init_std = float(alpha), init_std
        self.table = nn.Parameter(torch.empty(max_length, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.init_std)

    @property
    def max_position(self) -> int:
        """Number of positions served, the square of the rows; the last valid position is one less."""
        return self.table.shape[0] ** 2

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the vector of each position to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        place = positions.one_axis()[0]
        if place.is_floating_point():
            raise InvalidArgument(
                "a learned table has rows for whole positions only, and these are fractions: "
                "interpolate the table instead of the positions"
            )
        outside = positions.outside(self.max_position)
        if outside is not None:
            raise PositionOutOfRange(
                f"position {outside} is outside the {self.max_position} positions (0 to "
                f"{self.max_position - 1}) that {self.table.shape[0]} rows serve: shorten the input, build "
                "Hierarchical with a larger max_length, or take an encoding without a table (rotary, alibi, t5, none)"
            )
        return x + self.vectors(place).to(x.dtype)

    def vectors(self, place: Tensor) -> Float[Tensor, "*place dim"]:
        """Vectors of whole positions of any shape, float32 or wider."""
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))
        rows = table.shape[0]
        high = nn.functional.embedding(place // rows, table) - table[0]  # exactly 0 below n
        return nn.functional.embedding(place % rows, table) + self.alpha / (1 - self.alpha) * high

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.table.shape[1]}, max_length={self.table.shape[0]}, alpha={self.alpha:g}"
