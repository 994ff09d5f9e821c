"""LieRE: learned rotations in many dims at once, for points of any space (Ostmeier et al. 2024).

arXiv 2406.10322 (id UNVERIFIED):

    q_i, k_j <- R(p_i) q_i, R(p_j) k_j,   R(p) = exp(sum_a p_a A_a),   A_a = U_a - U_a^T

U_a is strictly upper triangular and learned, in blocks of `block` dims, for each axis. Numbers start uniform in
[0, 2 pi), as in `StanfordMIMI/LieRE`; all heads share them unless told otherwise. That code divides positions by
the number of patches for which it is made (`grid`), so that they run from 0 to 1. A class token stands at 0, where R is
the identity.

Rotations in different planes do not commute: R(p_i)^T R(p_j) depends on p_i - p_j alone only where blocks have 2 dims
or there is one axis. Otherwise logits are not those of a relative encoding, and translation invariance is not
claimed.

An error of the sum in its last digit is an error of the angle. The published code exponentiates in float32; here it is
float64 (where the device has it), and the result is float32. Measured with the first draw, `grid=1` and positions from
2^20 on, R is orthogonal to 3e-8 in blocks of 4 and 8 dims and to 1e-7 in blocks of 64, before it is rounded; float32
loses its third digit at 1000, and at 2^20 its matrices are no rotations any more. On one core the 256 patches of an
image take 0.05 s with blocks of 8 dims and 0.7 s with blocks of 64, and five times that with gradients.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.query_key import MatrixRotation


@encodings.register("liere")
class LieRE(nn.Module):
    """Rotates queries and keys by the exponential of learned skew-symmetric matrices, weighted by the coordinates.

    It holds one matrix of `block` x `block` for each token, head (if they differ) and block: small blocks are cheap.

    Args:
        head_dim: width of one head.
        axes: number of coordinates.
        block: dims that are rotated together, a divisor of head_dim; where None the whole head.
        generators: 1 where all heads share the learned matrices, or the number of key heads.
        grid: number by which positions are divided: patches in a row of the nominal image, as published.

    Raises:
        InvalidArgument: settings that do not fit together; when called, positions of another number of axes.

    Example:
        >>> import torch, lengthwise as lw
        >>> grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))[None]  # [1, 6, 2]: (row, column), row by row
        >>> rotation = lw.LieRE(head_dim=8, block=4, grid=3).rotation(lw.Positions(grid, grid, causal=False))
        >>> rotation.q_matrix.shape  # batch, heads, tokens, blocks, dims, dims
        torch.Size([1, 1, 6, 2, 4, 4])
    """

    formula: ClassVar[str] = "q_i, k_j <- R(p_i) q_i, R(p_j) k_j,  R(p) = exp(Σ_a p_a (U_a - U_aᵀ))"
    paper: ClassVar[str] = "Ostmeier et al. 2024, arXiv 2406.10322"
    claims: frozenset[str] = frozenset({"norm_preserving", "pairwise"})

    def __init__(
        self, head_dim: int, axes: int = 2, block: int | None = None, generators: int = 1, grid: float = 1.0
    ) -> None:
        super().__init__()
        size = head_dim if block is None else block
        if size < 2 or head_dim < 2 or head_dim % size:
            raise InvalidArgument(f"block must be at least 2 and divide head_dim {head_dim}, and is {size}")
        if axes < 1 or generators < 1:
            raise InvalidArgument(f"axes and generators must be at least 1, not {axes} and {generators}")
        if not grid > 0:
            raise InvalidArgument(f"grid must be above 0, not {grid}: positions are divided by it")
        self.head_dim, self.axes, self.block, self.generators, self.grid = head_dim, axes, size, generators, float(grid)
        if size == 2 or axes == 1:
            self.claims = self.claims | {"translation_invariant"}
        self.upper = nn.Parameter(torch.empty(axes, generators, head_dim // size, size * (size - 1) // 2))
        self.reset_parameters()

    @property
    def kv_heads(self) -> int | None:
        """Number of key heads for which it is made; None for any."""
        return None if self.generators == 1 else self.generators

    def reset_parameters(self) -> None:
        """Draw the matrices anew."""
        nn.init.uniform_(self.upper, 0, 2 * math.pi)

    def rotation(self, positions: Positions) -> MatrixRotation:
        """The rotation at `positions [batch or 1, length, axes]`, or of one axis; differentiable in the matrices."""
        if self.axes == 1:
            q, k = (place.unsqueeze(-1) for place in positions.one_axis())
        else:
            q, k = positions.several_axes(self.axes)
        q_matrix = self._matrices(q)
        return MatrixRotation(q_matrix, q_matrix if positions.k is positions.q else self._matrices(k))

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"head_dim={self.head_dim}, axes={self.axes}, block={self.block}, generators={self.generators}, "
            f"grid={self.grid:g}"
        )

    def _matrices(self, place: Tensor) -> Float[Tensor, "batch generators length blocks size size"]:
        wide = widest_float(place.device)
        rows = (place if place.dim() == 3 else place[None]).to(wide) / self.grid  # [batch or 1, length, axes]
        upper = self.upper.to(wide).unsqueeze(2)  # [axes, generators, 1, blocks, entries]
        weights = rows[:, None, :, None, :].unbind(-1)  # [batch or 1, 1, length, 1] each
        total = torch.stack([p.unsqueeze(-1) * u for p, u in zip(weights, upper, strict=True)]).sum(0)
        row, column = torch.triu_indices(self.block, self.block, offset=1, device=place.device)
        flat = total.new_zeros(*total.shape[:-1], self.block * self.block)
        flat = flat.index_add(-1, row * self.block + column, total)
        triangle = flat.unflatten(-1, (self.block, self.block))
        kept = torch.promote_types(self.upper.dtype, torch.float32)
        return torch.linalg.matrix_exp(triangle - triangle.transpose(-1, -2)).to(kept)
