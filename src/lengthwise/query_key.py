"""What an encoding does to queries and keys each by themselves, before their product.

`Rotation` is the usual form; here are what all forms keep, the form for more than two dims at a time, a number for each
query, and several forms one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.errors import InvalidArgument


@runtime_checkable
class QueryKeyMap(Protocol):
    """What is done to queries and keys each by themselves, before their product: a rotation, or several in a row."""

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries `[batch, heads, q, head_dim]` and keys `[batch, kv_heads, k, head_dim]`, dtypes kept."""
        ...

    def q(self, x: Tensor) -> Tensor:
        """Map queries alone."""
        ...

    def k(self, x: Tensor) -> Tensor:
        """Map keys alone."""
        ...


@dataclass(frozen=True, eq=False)
class MatrixRotation:
    """A matrix for each run of `size` dims of a head; dims past `blocks * size` pass through.

    Args:
        q_matrix: float32 or wider `[q, blocks, size, size]`, or `[batch or 1, heads or 1, q, blocks, size, size]`;
            query heads that share a key head share its matrices.
        k_matrix: the same for keys.
    """

    q_matrix: Float[Tensor, "*rows q blocks size size"]
    k_matrix: Float[Tensor, "*rows k blocks size size"]

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries `[batch, heads, q, head_dim]` and keys `[batch, kv_heads, k, head_dim]`, dtypes kept."""
        return self.q(q), self.k(k)

    def q(self, x: Float[Tensor, "batch heads q head_dim"]) -> Float[Tensor, "batch heads q head_dim"]:
        """Map queries alone."""
        return _multiply(x, self.q_matrix)

    def k(self, x: Float[Tensor, "batch heads k head_dim"]) -> Float[Tensor, "batch heads k head_dim"]:
        """Map keys alone."""
        return _multiply(x, self.k_matrix)


@dataclass(frozen=True, eq=False)
class QueryScale:
    """Multiplies queries alone.

    Args:
        factor: float32 `[q]`, `[batch or 1, q]`, or `[batch or 1, heads, q]`.
    """

    factor: Float[Tensor, "*batch q"]

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries `[batch, heads, q, head_dim]`; keys are returned as they are."""
        return self.q(q), self.k(k)

    def q(self, x: Float[Tensor, "batch heads q head_dim"]) -> Float[Tensor, "batch heads q head_dim"]:
        """Multiply queries, in float32 or wider; their dtype is kept."""
        factor = self.factor if self.factor.dim() > 1 else self.factor[None]
        factor = factor if factor.dim() == 3 else factor.unsqueeze(1)  # [batch or 1, heads or 1, q]
        fits = factor.shape[0] in (1, x.shape[0]) and factor.shape[1] in (1, x.shape[1])
        if x.shape[2] != factor.shape[2] or not fits:
            raise InvalidArgument(
                f"queries {list(x.shape)} of [batch, heads, q, head_dim] do not fit {list(self.factor.shape)} "
                "of [batch or 1, q] positions, or [batch or 1, heads, q]"
            )
        return (x.to(torch.promote_types(x.dtype, factor.dtype)) * factor.unsqueeze(-1)).to(x.dtype)

    def k(self, x: Float[Tensor, "batch heads k head_dim"]) -> Float[Tensor, "batch heads k head_dim"]:
        """Keys as they are."""
        return x


@dataclass(frozen=True, eq=False)
class Composed:
    """Several maps, one after another.

    Args:
        maps: in the order in which they act.
    """

    maps: tuple[QueryKeyMap, ...]

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Map queries `[batch, heads, q, head_dim]` and keys `[batch, kv_heads, k, head_dim]`, dtypes kept."""
        return self.q(q), self.k(k)

    def q(self, x: Float[Tensor, "batch heads q head_dim"]) -> Float[Tensor, "batch heads q head_dim"]:
        """Map queries alone."""
        for one in self.maps:
            x = one.q(x)
        return x

    def k(self, x: Float[Tensor, "batch heads k head_dim"]) -> Float[Tensor, "batch heads k head_dim"]:
        """Map keys alone."""
        for one in self.maps:
            x = one.k(x)
        return x


def _multiply(x: Tensor, matrix: Tensor) -> Tensor:
    length, blocks, size = matrix.shape[-4:-1]
    heads = matrix.shape[-5] if matrix.dim() == 6 else 1
    batch = matrix.shape[0] if matrix.dim() == 6 else 1
    fits = x.dim() == 4 and x.shape[2] == length and x.shape[3] >= blocks * size and matrix.dim() in (4, 6)
    if not fits or x.shape[1] % heads or batch not in (1, x.shape[0]):
        raise InvalidArgument(
            f"matrices {list(matrix.shape)} of [(batch, heads,) length, blocks, size, size] do not fit "
            f"{list(x.shape)} of [batch, heads, length, head_dim]"
        )
    if heads not in (1, x.shape[1]):
        matrix = matrix.repeat_interleave(x.shape[1] // heads, dim=1)
    wide = torch.promote_types(x.dtype, matrix.dtype)
    with torch.autocast(x.device.type, enabled=False):
        runs = x[..., : blocks * size].to(wide).unflatten(-1, (blocks, size))  # [batch, heads, length, blocks, size]
        out = (matrix.to(wide) @ runs.unsqueeze(-1)).squeeze(-1).flatten(-2)
    return torch.cat((out.to(x.dtype), x[..., blocks * size :]), dim=-1)
