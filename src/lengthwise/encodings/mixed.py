"""RoPE-Mixed: learned frequencies for both coordinates of an image (Heo et al. 2024, 2403.13298, id UNVERIFIED).

    pair m of head h is turned by   column * w^x_hm + row * w^y_hm

Each pair so measures distance along a direction of its own, which axial frequencies can't: they see rows and columns
only. Init, as in `naver-ai/rope-vit`: with magnitudes base^(-4m / head_dim), m = 0 .. head_dim/4 - 1, the first half of
the pairs points along a random direction for each head, the second at right angles to it. The published models have
base 10, though the class there says 100; frequencies of each layer, kept in float32, and no weight decay on them.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.rotation import Layout, Rotation


@encodings.register("mixed")
class MixedRotary(nn.Module):
    """Rotates queries and keys by angles that mix row and column, in learned proportions for each head and pair.

    Args:
        kv_heads: number of key heads; query heads that share one share its frequencies.
        head_dim: width of one head, a multiple of 4.
        base: ratio that sets the lowest magnitude at first.
        layout: which dims make a pair, `"interleaved"` as published, or `"half"`.

    Raises:
        InvalidArgument: settings out of range; when called, positions that have not two axes (row, column).

    Example:
        >>> import torch, lengthwise as lw
        >>> grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))[None]  # [1, 6, 2]: (row, column), row by row
        >>> rotation = lw.MixedRotary(kv_heads=2, head_dim=8).rotation(lw.Positions(grid, grid, causal=False))
        >>> rotation.q_cos.shape  # batch, key heads, tokens, pairs
        torch.Size([1, 2, 6, 4])
    """

    formula: ClassVar[str] = "q_i, k_j <- R(p_i) q_i, R(p_j) k_j,  angle of pair m: column ω^x_hm + row ω^y_hm, learned"
    paper: ClassVar[str] = "Heo et al. 2024, arXiv 2403.13298"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "norm_preserving", "pairwise"})
    axes: ClassVar[int] = 2

    def __init__(self, kv_heads: int, head_dim: int, base: float = 10.0, layout: Layout = "interleaved") -> None:
        super().__init__()
        if kv_heads < 1:
            raise InvalidArgument(f"MixedRotary needs at least 1 key head, not {kv_heads}")
        if head_dim < 4 or head_dim % 4:
            raise InvalidArgument(
                f"MixedRotary needs a head_dim that 4 divides, for pairs along two directions, not {head_dim}"
            )
        if not base > 0:
            raise InvalidArgument(f"base must be above 0, not {base}")
        if layout not in ("half", "interleaved"):
            raise InvalidArgument(f"unknown layout {layout!r}: {nearest(layout, ('half', 'interleaved'))}")
        self.kv_heads, self.head_dim, self.base = kv_heads, head_dim, float(base)
        self.layout: Layout = layout
        self.frequencies = nn.Parameter(torch.empty(2, kv_heads, head_dim // 2))  # of the row, of the column
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the directions anew."""
        like = self.frequencies.detach()
        magnitude = self.base ** (-4 / self.head_dim * torch.arange(self.head_dim // 4).to(like))
        direction = torch.rand(self.kv_heads, 1).to(like) * 2 * math.pi
        angle = torch.cat((direction, direction + math.pi / 2), dim=-1).unsqueeze(-1)  # [kv_heads, 2, 1]
        with torch.no_grad():
            for axis, part in enumerate((angle.sin(), angle.cos())):
                self.frequencies[axis] = (part * magnitude).flatten(1)

    def rotation(self, positions: Positions) -> Rotation:
        """The rotation at `positions [batch or 1, length, 2]`, differentiable in the frequencies."""
        q, k = positions.several_axes(2)
        q_cos, q_sin = self._tables(q)
        k_cos, k_sin = (q_cos, q_sin) if k is q else self._tables(k)
        return Rotation(q_cos, q_sin, k_cos, k_sin, self.layout)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"kv_heads={self.kv_heads}, head_dim={self.head_dim}, base={self.base:g}, layout={self.layout!r}"

    def _tables(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, float32 or wider, `[batch or 1, kv_heads, length, pairs]`."""
        wide = widest_float(place.device)
        row, column = place.to(wide)[:, None, :, None].unbind(-1)  # [batch or 1, 1, length, 1]
        of_row, of_column = self.frequencies.to(wide).unsqueeze(2)  # [kv_heads, 1, pairs]
        angle = row * of_row + column * of_column
        kept = torch.promote_types(self.frequencies.dtype, torch.float32)
        return angle.cos().to(kept), angle.sin().to(kept)
