"""ComRoPE: learned rotations that commute, and so stay relative in several coordinates (Yu et al. 2025).

arXiv 2506.03737 (id UNVERIFIED):

    q_i, k_j <- R(p_i) q_i, R(p_j) k_j,   block b of R(p) = exp(t_b(p) (S_b - S_b^T))
    "ap":  t_b(p) = p_a, a = b modulo the number of axes        each block serves one axis
    "ld":  t_b(p) = sum_a mu_ab p_a                             all generators of a block are multiples of one

S is learned for each key head and block, normal at first with `init_std` (1 as published); mu is standard normal at
first, and all heads share it, as in `Longin-Yu/ComRoPE`. Since the generators of a block commute, R(p_i)^T R(p_j)
depends on p_i - p_j alone. In blocks of 2 dims, the published configuration, R turns pairs of neighbours by the angle
-t_b (S_01 - S_10): an ordinary rotation, with its speed. (The paper is said to find blocks of 8 best: UNVERIFIED.)

That code takes positions (index + 1/2) / patches in a row, and 1/2 for the class token: `grid` is what positions are
divided by, and a shift of all cancels, so that the class token belongs at (patches - 1) / 2. Its random perturbation of
positions while training is left out. The exponential is taken in float64, as in LieRE and for the same reason.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.query_key import MatrixRotation
from lengthwise.rotation import Rotation

VARIANTS = ("ap", "ld")


@encodings.register("comrope")
class ComRoPE(nn.Module):
    """Rotates queries and keys by learned matrices that commute, one for each block of dims and key head.

    Args:
        kv_heads: number of key heads; query heads that share one share its matrices.
        head_dim: width of one head.
        axes: number of coordinates.
        block: dims that are rotated together, a divisor of head_dim.
        variant: `"ld"`, linearly dependent generators, or `"ap"`, one axis for each block.
        grid: number by which positions are divided: patches in a row, as published.
        init_std: standard deviation of the first entries.

    Raises:
        InvalidArgument: settings that do not fit together; when called, positions of another number of axes.

    Example:
        >>> import torch, lengthwise as lw
        >>> grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))[None]  # [1, 6, 2]: (row, column), row by row
        >>> q = k = torch.randn(1, 2, 6, 8)
        >>> q, k = lw.ComRoPE(kv_heads=2, head_dim=8, grid=3).rotation(lw.Positions(grid, grid, causal=False))(q, k)
    """

    formula: ClassVar[str] = "q_i, k_j <- R(p_i) q_i, R(p_j) k_j,  block b of R(p): exp((Σ_a μ_ab p_a) (S_b - S_bᵀ))"
    paper: ClassVar[str] = "Yu et al. 2025, arXiv 2506.03737"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(
        self,
        kv_heads: int,
        head_dim: int,
        axes: int = 2,
        block: int = 2,
        variant: Literal["ap", "ld"] = "ld",
        grid: float = 1.0,
        init_std: float = 1.0,
    ) -> None:
        super().__init__()
        if kv_heads < 1 or axes < 1:
            raise InvalidArgument(f"kv_heads and axes must be at least 1, not {kv_heads} and {axes}")
        if block < 2 or head_dim < 2 or head_dim % block:
            raise InvalidArgument(f"block must be at least 2 and divide head_dim {head_dim}, and is {block}")
        if variant not in VARIANTS:
            raise InvalidArgument(f"unknown variant {variant!r}: {nearest(variant, VARIANTS)}")
        blocks = head_dim // block
        if variant == "ap" and blocks < axes:
            raise InvalidArgument(
                f"each of {axes} axes needs a block of its own, and there are {blocks}: smaller ones?"
            )
        if not grid > 0 or not init_std >= 0:
            raise InvalidArgument(f"grid must be above 0 and init_std at least 0, not {grid} and {init_std}")
        self.kv_heads, self.head_dim, self.axes, self.block = kv_heads, head_dim, axes, block
        self.variant: Literal["ap", "ld"] = variant
        self.grid, self.init_std = float(grid), float(init_std)
        self.generators = nn.Parameter(torch.empty(kv_heads, blocks, block, block))  # S
        self.weights = nn.Parameter(torch.empty(axes, blocks)) if variant == "ld" else None  # mu
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices, and the weights of the axes, anew."""
        nn.init.normal_(self.generators, std=self.init_std)
        if self.weights is not None:
            nn.init.normal_(self.weights)

    def rotation(self, positions: Positions) -> Rotation | MatrixRotation:
        """The rotation at `positions [batch or 1, length, axes]`, or of one axis; differentiable in what is learned."""
        if self.axes == 1:
            q, k = (place.unsqueeze(-1) for place in positions.one_axis())
        else:
            q, k = positions.several_axes(self.axes)
        if self.block != 2:
            q_matrix = self._matrices(q)
            return MatrixRotation(q_matrix, q_matrix if positions.k is positions.q else self._matrices(k))
        q_cos, q_sin = self._tables(q)
        k_cos, k_sin = (q_cos, q_sin) if positions.k is positions.q else self._tables(k)
        return Rotation(q_cos, q_sin, k_cos, k_sin, "interleaved")

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"kv_heads={self.kv_heads}, head_dim={self.head_dim}, axes={self.axes}, block={self.block}, "
            f"variant={self.variant!r}, grid={self.grid:g}, init_std={self.init_std:g}"
        )

    def _turns(self, place: Tensor) -> Tensor:
        """t_b of each position, `[batch or 1, 1, length, blocks]`."""
        wide = widest_float(place.device)
        rows = (place if place.dim() == 3 else place[None]).to(wide).unsqueeze(1) / self.grid
        if self.weights is None:
            blocks = torch.arange(self.head_dim // self.block, device=place.device)
            return rows[..., blocks % self.axes]
        return (rows.unsqueeze(-1) * self.weights.to(wide)).sum(-2)

    def _skew(self, wide: torch.dtype) -> Tensor:
        """S - S^T, `[kv_heads, 1, blocks, block, block]`."""
        generators = self.generators.to(wide).unsqueeze(1)
        return generators - generators.transpose(-1, -2)

    def _tables(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, float32 or wider, `[batch or 1, kv_heads, length, blocks]`."""
        turns = self._turns(place)
        angle, kept = -turns * self._skew(turns.dtype)[..., 0, 1], self._kept
        return angle.cos().to(kept), angle.sin().to(kept)

    def _matrices(self, place: Tensor) -> Tensor:
        """Float32 or wider, `[batch or 1, kv_heads, length, blocks, block, block]`."""
        turns = self._turns(place)
        return torch.linalg.matrix_exp(turns[..., None, None] * self._skew(turns.dtype)).to(self._kept)

    @property
    def _kept(self) -> torch.dtype:
        return torch.promote_types(self.generators.dtype, torch.float32)
