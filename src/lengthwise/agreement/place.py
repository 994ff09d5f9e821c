"""Where and in which dtype two implementations are compared, and what they are given there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lengthwise.positions import Positions

NEAR, FAR = 128, 64
"""How many positions are compared from 0 on, and from a far one."""
ROWS, COLUMNS = 6, 8
"""Of a grid of patches."""
STARTS = (0, 65536, 2**20)
"""First positions of a comparison."""


@dataclass(frozen=True)
class Place:
    """Some positions one after another, and a dtype.

    Args:
        dtype: of the inputs.
        start: first position.
    """

    dtype: torch.dtype = torch.float32
    start: int = 0

    @property
    def length(self) -> int:
        """Number of positions."""
        return FAR if self.start else NEAR

    @property
    def index(self) -> Tensor:
        """The positions, int64 `[length]`."""
        return torch.arange(self.start, self.start + self.length)

    @property
    def positions(self) -> Positions:
        """The positions as an encoding takes them, causal."""
        return Positions(self.index, self.index)

    def draw(self, *shape: int, seed: int = 0) -> Tensor:
        """Numbers in [-1, 1], the same in every dtype: all of them are bfloat16 numbers."""
        generator = torch.Generator().manual_seed(seed)
        return (2 * torch.rand(shape, generator=generator) - 1).bfloat16().to(self.dtype)

    def queries_and_keys(self, heads: int = 4, head_dim: int = 64, length: int | None = None) -> tuple[Tensor, Tensor]:
        """Queries and keys, `[1, heads, length, head_dim]` each."""
        shape = (1, heads, length or self.length, head_dim)
        return self.draw(*shape, seed=1), self.draw(*shape, seed=2)


def grid(rows: int, columns: int, start: int = 0) -> Tensor:
    """Points of a grid, row by row, `[1, rows * columns, 2]` of (row, column)."""
    return torch.cartesian_prod(torch.arange(start, start + rows), torch.arange(start, start + columns))[None]


def on_grid(start: int = 0, rows: int = ROWS, columns: int = COLUMNS) -> Positions:
    """A grid of patches that all see each other."""
    points = grid(rows, columns, start)
    return Positions(points, points, causal=False)


def centred(bias: Tensor) -> Tensor:
    """A causal bias less its value at each row's own position, float64; 0 for keys ahead: what a softmax can see.

    Args:
        bias: `[heads, length, length]`, queries and keys at the same positions.
    """
    wide = bias.double()
    return (wide - wide.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)).tril()


def logits(turned: Tensor) -> Tensor:
    """q·k / 8 of rotated queries and keys for keys not ahead, in float64: only their rotation is compared.

    Args:
        turned: `[2, 1, heads, length, 64]`.
    """
    q, k = turned.double()
    return (q @ k.transpose(-1, -2)).tril() / 8
