"""Swin's relative bias: one learned number for each head and offset of two patches in a window.

Liu et al. 2021 (2103.14030, id UNVERIFIED), eq. 4:

    logit(i, j) += E[(row_i - row_j + Wh - 1)(2 Ww - 1) + (column_i - column_j + Ww - 1), h]

The table is drawn with standard deviation 0.02 as in the authors' code, whose truncation at 2 is never reached;
`transformers` begins with zeros.
It has no value outside its window, and none is made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn

from lengthwise.bias import DenseBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, PositionOutOfRange
from lengthwise.positions import Positions


@encodings.register("swin")
class SwinBias(nn.Module):
    """A learned bias for each head and offset (rows, columns) within a window.

    Positions may count from anywhere; what counts is that tokens which see each other lie in one window.

    Args:
        heads: number of query heads.
        window: rows and columns of the window.
        init_std: standard deviation of the first values.

    Raises:
        PositionOutOfRange: when called with tokens that see each other and are not in one window.

    Example:
        >>> import torch, lengthwise as lw
        >>> place = torch.cartesian_prod(torch.arange(7), torch.arange(7))[None]  # [1, 49, 2]
        >>> lw.SwinBias(heads=3).logit_bias(lw.Positions(place, place, causal=False)).dense().shape
        torch.Size([1, 3, 49, 49])
    """

    formula: ClassVar[str] = "logit(i, j) += E[row_i - row_j, column_i - column_j, h]"
    paper: ClassVar[str] = "Liu et al. 2021, arXiv 2103.14030, eq. 4"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})
    axes: ClassVar[int] = 2
    example: ClassVar[str] = "swin(window=(64, 64))"  # room for the sequences that checks make

    def __init__(self, heads: int, window: Sequence[int] = (7, 7), init_std: float = 0.02) -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"SwinBias needs at least 1 head, not {heads}")
        if len(window) != 2 or not all(side >= 1 for side in window):
            raise InvalidArgument(f"window must be (rows, columns), both at least 1, not {window}")
        if not init_std >= 0:
            raise InvalidArgument(f"init_std must be at least 0, not {init_std}")
        self.heads, self.window, self.init_std = heads, (int(window[0]), int(window[1])), init_std
        rows, columns = self.window
        self.table = nn.Parameter(torch.empty((2 * rows - 1) * (2 * columns - 1), heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.init_std)

    def logit_bias(self, positions: Positions) -> DenseBias:
        """The bias at `positions [batch or 1, length, 2]`, differentiable in the table."""
        q, k = positions.several_axes(self.axes)
        if q.is_floating_point() or k.is_floating_point():
            raise InvalidArgument(
                "a table of offsets has rows for whole positions only, and these are fractions: "
                "interpolate the table instead of the positions, or take log_cpb, which is a function of any offset"
            )
        offset = q.unsqueeze(2) - k.unsqueeze(1)  # [batch, q, k, 2]
        rows, columns = self.window
        down, right = offset.unbind(-1)
        outside = (down.abs() >= rows) | (right.abs() >= columns)
        visible = positions.visible()
        unseen = outside if visible is None else outside & ~visible  # means nothing: any row of the table will do
        index = (down + rows - 1) * (2 * columns - 1) + right + columns - 1
        index = index.masked_fill(unseen, 0)
        if visible is not None:
            outside = outside & visible
        if torch.compiler.is_compiling():
            index = index.masked_fill(outside, self.table.shape[0])  # past the table: the lookup itself refuses
        elif outside.any():
            self._refuse(offset[outside][0].tolist())
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))  # a bias is never narrower
        return DenseBias(nn.functional.embedding(index, table).movedim(-1, 1))

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}, window={self.window}"

    def _refuse(self, offset: list[int]) -> None:
        raise PositionOutOfRange(
            f"two tokens that see each other are {abs(offset[0])} rows and {abs(offset[1])} columns apart, outside the "
            f"window of {self.window[0]} x {self.window[1]}: split the image into windows (segments keep them apart), "
            "build SwinBias with a larger window and train it, or take log_cpb or alibi2d, which have no table"
        )
