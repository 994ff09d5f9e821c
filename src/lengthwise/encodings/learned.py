"""A learned table of positions, added to the token embeddings.

    x_t <- x_t + E[p_t],  E in R^(max_length x dim),  E ~ N(0, 0.02^2) at first

Gehring et al. 2017 (1705.03122, id UNVERIFIED), Devlin et al. 2018 (1810.04805, id UNVERIFIED), GPT-2. The standard
deviation is that of BERT and GPT-2 in `transformers` (`initializer_range`). Past its table it has no value at all.
"""

from __future__ import annotations

import copy
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, PositionOutOfRange
from lengthwise.positions import Positions


@encodings.register("learned")
class Learned(nn.Module):
    """A learned vector for each position.

    Args:
        dim: width of the token embeddings.
        max_length: number of positions in the table.
        init_std: standard deviation of the first values.

    Raises:
        PositionOutOfRange: when called with a position past the table.
    """

    formula: ClassVar[str] = "x_t <- x_t + E[p_t]"
    paper: ClassVar[str] = "Gehring et al. 2017, arXiv 1705.03122; Devlin et al. 2018, arXiv 1810.04805"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})

    def __init__(self, dim: int, max_length: int, init_std: float = 0.02) -> None:
        super().__init__()
        if dim < 1 or max_length < 1:
            raise InvalidArgument(f"Learned needs dim and max_length of at least 1, not {dim} and {max_length}")
        if not init_std >= 0:
            raise InvalidArgument(f"init_std must be at least 0, not {init_std}")
        self.init_std = init_std
        self.table = nn.Parameter(torch.empty(max_length, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.init_std)

    @property
    def max_position(self) -> int:
        """Number of positions in the table; the last valid position is one less."""
        return self.table.shape[0]

    def with_table(self, table: Float[Tensor, "positions dim"]) -> Learned:
        """The same encoding with another table, of any number of positions; this one is left as it is.

        Raises:
            InvalidArgument: another width, no rows, or values that are not floating.
        """
        if table.dim() != 2 or table.shape[0] < 1 or table.shape[1] != self.table.shape[1]:
            raise InvalidArgument(f"a table must be [positions, {self.table.shape[1]}], not {list(table.shape)}")
        if not table.is_floating_point():
            raise InvalidArgument(f"a table must be floating, not {table.dtype}")
        changed = copy.deepcopy(self)
        changed.table = nn.Parameter(table.detach().clone(), requires_grad=self.table.requires_grad)
        return changed

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the row of each position to `x`; the result has the dtype of `x`."""
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
                f"position {outside} is outside the learned table of {self.max_position} positions "
                f"(0 to {self.max_position - 1}): shorten the input, build Learned with a larger max_length and train "
                "it, or take an encoding without a table (rotary, alibi, t5, none)"
            )
        return x + nn.functional.embedding(place, self.table).to(x.dtype)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.table.shape[1]}, max_length={self.max_position}"
