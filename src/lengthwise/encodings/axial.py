"""Axial rotary embedding: each coordinate turns pairs of its own, for images, videos and volumes.

    pair m of block a is turned by p_a theta_m,   theta_m = base^(-m / pairs_a),   m = 0 .. pairs_a - 1

The same idea is published many times over, and what differs are settings; a checkpoint works with its own only. Axes
of positions are (row, column), or (time, row, column):

| model | settings |
|---|---|
| RoPE-ViT axial (Heo et al. 2024, 2403.13298, id UNVERIFIED) | `base=100, order=(1, 0)`, the defaults |
| EVA-02 (2303.11331, id UNVERIFIED) | `base=10000, order=(0, 1), scale=16 / patches in a row` |
| `transformers` "axial": vision of Qwen2-VL, Qwen3-VL and kin | `base=10000, order=(0, 1), layout="half"` |
| Llama 4 vision | `base=10000, order=(1, 0)`, positions from 1, the class token at 0 |
| Pixtral | `base=10000, order=(0, 1), layout="half", frequencies="alternating"` |
| DINOv3 | `base=100, order=(0, 1), layout="half", scale=2 pi`, positions in [-1, 1] |

A token at position 0 on all axes is not turned, which is how class tokens stand outside the grid. Left out are
DINOv3's random shifts while training, and Gemma 4, which has halves within each block. A split of a head among three
axes is published in many ways and none is standard: give it as `split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.rotation import Layout, Rotation

FREQUENCIES = ("same", "alternating")


@encodings.register("axial")
class Axial(nn.Module):
    """Rotates queries and keys, some pairs of dims by each coordinate.

    Args:
        head_dim: width of one head, even.
        axes: number of coordinates; with 1 it is RoPE.
        base: ratio that sets the lowest frequency of each block.
        split: pairs of each block, in the order of the blocks; all alike where None. Dims past their sum pass through.
        order: the coordinate that each block takes; where None the last one first, (column, row) as in RoPE-ViT.
        layout: which dims make a pair, `"interleaved"` or `"half"`.
        scale: multiplies all positions.
        frequencies: `"same"` in all blocks, or `"alternating"`: the blocks take turns among those of a whole head.

    Raises:
        InvalidArgument: settings that do not fit together; when called, positions of another number of axes.

    Example:
        >>> import torch, lengthwise as lw
        >>> grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))[None]  # [1, 6, 2]: (row, column), row by row
        >>> positions = lw.Positions(grid, grid, causal=False)
        >>> q = k = torch.randn(1, 2, 6, 8)
        >>> q, k = lw.Axial(head_dim=8).rotation(positions)(q, k)
    """

    formula: ClassVar[str] = "q_i, k_j <- R(p_i) q_i, R(p_j) k_j,  angle of pair m of block a: p_a base^(-m / pairs_a)"
    paper: ClassVar[str] = "Heo et al. 2024, arXiv 2403.13298; Fang et al. 2023, arXiv 2303.11331"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        base: float = 100.0,
        split: Sequence[int] | None = None,
        order: Sequence[int] | None = None,
        layout: Layout = "interleaved",
        scale: float = 1.0,
        frequencies: Literal["same", "alternating"] = "same",
    ) -> None:
        super().__init__()
        if axes < 1:
            raise InvalidArgument(f"axes must be at least 1, not {axes}")
        if not base > 0:
            raise InvalidArgument(f"base must be above 0, not {base}")
        for name, word, words in (
            ("layout", layout, ("half", "interleaved")),
            ("frequencies", frequencies, FREQUENCIES),
        ):
            if word not in words:
                raise InvalidArgument(f"unknown {name} {word!r}: {nearest(word, words)}")
        self.head_dim, self.axes, self.base, self.scale = head_dim, axes, float(base), float(scale)
        self.split, self.order = _split(head_dim, axes, split), tuple(range(axes)[::-1] if order is None else order)
        self.layout: Layout = layout
        self.frequencies: Literal["same", "alternating"] = frequencies
        if sorted(self.order) != list(range(axes)):
            raise InvalidArgument(f"order must name each of the axes 0 to {axes - 1} once, not {self.order}")
        self.rotary_dim = 2 * sum(self.split)

    def rotation(self, positions: Positions) -> Rotation:
        """The rotation at `positions [batch or 1, length, axes]`; angles are formed in float64."""
        if self.axes == 1:
            q, k = (place.unsqueeze(-1) for place in positions.one_axis())
        else:
            q, k = positions.several_axes(self.axes)
        q_angles = self._angles(q)
        k_angles = q_angles if positions.k is positions.q else self._angles(k)
        return Rotation.of_angles(q_angles, k_angles, self.layout)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"head_dim={self.head_dim}, axes={self.axes}, base={self.base:g}, split={self.split}, order={self.order}, "
            f"layout={self.layout!r}, scale={self.scale:g}, frequencies={self.frequencies!r}"
        )

    def _angles(self, place: Tensor) -> Float[Tensor, "*place pairs"]:
        wide = widest_float(place.device)
        blocks: list[Tensor] = []
        for block, (axis, pairs) in enumerate(zip(self.order, self.split, strict=True)):
            m = torch.arange(pairs, device=place.device, dtype=wide)
            m = m if self.frequencies == "same" else m + block / self.axes
            blocks.append(place[..., axis, None].to(wide) * self.scale * self.base ** (-m / max(pairs, 1)))
        return torch.cat(blocks, dim=-1)


def _split(head_dim: int, axes: int, split: Sequence[int] | None) -> tuple[int, ...]:
    if split is None:
        if head_dim < 2 * axes or head_dim % (2 * axes):
            raise InvalidArgument(
                f"Axial turns pairs of dims, and head_dim {head_dim} has not the same number of them for each of "
                f"{axes} axes: choose a multiple of {2 * axes}, or say how many pairs each axis gets, split=(...)"
            )
        return (head_dim // 2 // axes,) * axes
    pairs = tuple(split)
    if len(pairs) != axes or min(pairs) < 0 or not 0 < sum(pairs) <= head_dim // 2:
        raise InvalidArgument(
            f"split must be {axes} numbers of pairs that sum to at most head_dim / 2 = {head_dim // 2}, not {pairs}"
        )
    return pairs
