"""A learned table stretched: the trained rows are taken for samples of a curve, which is sampled more densely.

    E'[i] = curve(i (n - 1) / (m - 1))            corners=True: the first and the last row stay
    E'[i] = curve((i + 1/2) n / m - 1/2)          corners=False, PyTorch's default, curve(p) held at both ends

The curve is linear between rows, or cubic (the convolution kernel with a = -3/4, as in PyTorch). No paper is followed
for text. Of image models the table is a grid of patches, resampled in two directions, behind rows of its own for a
class token: ViT and MAE take it cubic, without corners and without smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions

KINDS = ("linear", "cubic")


@extensions.register("resample")
@dataclass(frozen=True)
class Resample(Method):
    """A table of more rows, between the trained ones.

    Args:
        length: number of rows after it.
        kind: `"linear"` or `"cubic"`.
        corners: whether the first and the last row stay as they are.

    Raises:
        InvalidArgument: a length below that of the table, an unknown kind.

    Example:
        >>> import torch, lengthwise as lw
        >>> learned = lw.Learned(dim=1, max_length=2).with_table(torch.tensor([[0.0], [3.0]]))
        >>> lw.extend(learned, lw.Resample(length=4)).table.flatten().tolist()
        [0.0, 1.0, 2.0, 3.0]
    """

    length: int
    kind: Literal["linear", "cubic"] = "linear"
    corners: bool = True

    formula: ClassVar[str] = "E'[i] = curve(i (n - 1) / (m - 1)), the curve through the rows of E"
    paper: ClassVar[str] = "no paper; torch.nn.functional.interpolate"
    example: ClassVar[str] = "resample(length=256)"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InvalidArgument(f"length is the number of rows after resampling, at least 1, and is {self.length}")
        check_kind(self.kind)

    def map_table(self, table: Tensor) -> Tensor:
        """The table `[rows, dim]` at `length` rows, in the table's dtype; itself where it has them already."""
        if self.length < table.shape[0]:
            raise InvalidArgument(
                f"length {self.length} is shorter than the table of {table.shape[0]} rows, which serves it as it is"
            )
        if self.length == table.shape[0]:
            return table
        return resampled(table[:, None], (self.length, 1), self.kind, self.corners)[:, 0]


@extensions.register("resample_grid")
@dataclass(frozen=True)
class ResampleGrid(Method):
    """The table of an image model for another number of patches, as ViT and MAE make it.

    Args:
        rows: rows of patches that the table has now; the columns follow.
        to: rows and columns after it.
        prefix: number of table rows before the grid, for class tokens; they are copied.
        kind: `"linear"` or `"cubic"`, in both directions.
        corners: whether the corners of the grid stay as they are.

    Raises:
        InvalidArgument: a table that is no such grid, sizes below 1, an unknown kind.

    Example:
        >>> import lengthwise as lw
        >>> learned = lw.Learned(dim=8, max_length=1 + 14 * 14)
        >>> lw.extend(learned, lw.ResampleGrid(rows=14, to=(16, 20), prefix=1)).max_position
        321
    """

    rows: int
    to: tuple[int, int]
    prefix: int = 0
    kind: Literal["linear", "cubic"] = "cubic"
    corners: bool = False

    formula: ClassVar[str] = "E'[i, j] = surface through the rows of E, (i + 1/2) n / m - 1/2 on each axis"
    paper: ClassVar[str] = "Dosovitskiy et al. 2020, arXiv 2010.11929, section 3.2"
    example: ClassVar[str] = "resample_grid(rows=8, to=(16, 16))"

    def __post_init__(self) -> None:
        if self.rows < 1 or self.prefix < 0 or len(self.to) != 2 or min(self.to) < 1:
            raise InvalidArgument(
                "ResampleGrid needs rows of at least 1, a prefix of at least 0 and to=(rows, columns), "
                f"not rows={self.rows}, prefix={self.prefix} and to={self.to}"
            )
        check_kind(self.kind)

    def map_table(self, table: Tensor) -> Tensor:
        """The table `[prefix + patches, dim]` for the new grid; itself where the grid is the same."""
        patches = table.shape[0] - self.prefix
        if patches < 1 or patches % self.rows:
            raise InvalidArgument(
                f"a table of {table.shape[0]} rows is no grid of {self.rows} rows of patches after a prefix of "
                f"{self.prefix}: rows must divide {patches}"
            )
        before, grid = table[: self.prefix], table[self.prefix :].unflatten(0, (self.rows, -1))
        if tuple(self.to) == tuple(grid.shape[:2]):
            return table
        return torch.cat((before, resampled(grid, self.to, self.kind, self.corners).flatten(0, 1)))


def check_kind(kind: str) -> None:
    """Raise `InvalidArgument` for a curve that is not known."""
    if kind not in KINDS:
        raise InvalidArgument(f"unknown kind {kind!r}: {nearest(kind, KINDS)}")


def resampled(grid: Tensor, to: tuple[int, int], kind: str, corners: bool) -> Tensor:
    """`[rows, columns, dim]` at another number of rows and columns, computed in float64."""
    mode = "bilinear" if kind == "linear" else "bicubic"
    surface = grid.detach().double().movedim(-1, 0)[None]  # [1, dim, rows, columns]
    sampled = nn.functional.interpolate(surface, size=tuple(to), mode=mode, align_corners=corners)
    return sampled[0].movedim(0, -1).to(grid.dtype)
