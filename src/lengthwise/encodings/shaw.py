"""Relative position vectors on keys, and on values (Shaw et al. 2018, 1803.02155, id UNVERIFIED, sections 3.1 and 3.2).

    logit(i, j) = q_i · (k_j + a_r) scale,   r = clip(j - i, -K, K),   a one learned vector for each r
    out_i = sum_j weight(i, j) (v_j + c_r),  the second term with `values=True`

Both terms of a logit are scaled, as in the authors' code (`tensor2tensor`, `common_attention.py`), and one table serves
all heads of a layer. K is 16 in the paper's base model (UNVERIFIED). That code leaves the first values to its
framework, whose default draws them uniformly with Glorot's bound, as here. Later models drop the term on values.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


@encodings.register("shaw")
class Shaw(nn.Module):
    """A learned vector for each clipped distance, added to the keys.

    The query meets the `2K + 1` vectors once, and pairs pick from these products: no `[q, k, head_dim]` is made.
    Distances that are no whole numbers, which maps of positions leave, count by their whole part.

    Args:
        head_dim: width of a head.
        max_distance: K above; all keys further away, on either side, share a vector.
        values: whether `value_term` has a table of its own.

    Raises:
        InvalidArgument: a size below 1.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.Shaw(head_dim=8, max_distance=2)
        >>> q = k = torch.randn(1, 4, 5, 8)
        >>> encoding.attention_logits(q, k, lw.Positions.sequence(5), 8**-0.5).shape
        torch.Size([1, 4, 5, 5])
    """

    formula: ClassVar[str] = "logit(i, j) = q_i · (k_j + a_clip(j - i, -K, K)) / sqrt(head_dim)"
    paper: ClassVar[str] = "Shaw et al. 2018, arXiv 1803.02155, equations 3 to 5"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})

    def __init__(self, head_dim: int, max_distance: int = 16, values: bool = False) -> None:
        super().__init__()
        if head_dim < 1 or max_distance < 1:
            raise InvalidArgument(
                f"Shaw needs a head_dim and a max_distance of at least 1, not {head_dim} and {max_distance}"
            )
        self.head_dim, self.max_distance = head_dim, max_distance
        self.key_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))  # row r + K
        self.value_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim)) if values else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the tables anew."""
        for table in (self.key_table, self.value_table):
            if table is not None:
                nn.init.xavier_uniform_(table)

    def attention_logits(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q k"]:
        """Scaled logits of all pairs, float32 or wider, before any mask."""
        wide = torch.promote_types(q.dtype, torch.float32)
        with torch.autocast(q.device.type, enabled=False):
            q, k = q.to(wide), k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], dim=1)
            content = q @ k.transpose(-1, -2)
            of_row = q @ self.key_table.to(wide).T  # [batch, heads, q, 2K + 1]
            return (content + of_row.gather(-1, self._rows(positions).expand(content.shape))) * scale

    def value_term(
        self, weights: Float[Tensor, "batch heads q k"], positions: Positions
    ) -> Float[Tensor, "batch heads q head_dim"]:
        """What the vectors on values add to the output of attention: `sum_j weight(i, j) c_r`.

        The weights are those of `lengthwise.attention_weights`; weights of one distance are summed before they meet
        their vector.

        Raises:
            InvalidArgument: an encoding made without `values=True`.
        """
        if self.value_table is None:
            raise InvalidArgument("this Shaw has no vectors on values: make it with values=True")
        wide = torch.promote_types(weights.dtype, torch.float32)
        with torch.autocast(weights.device.type, enabled=False):
            weights = weights.to(wide)
            sums = weights.new_zeros(*weights.shape[:-1], self.value_table.shape[0])
            sums = sums.scatter_add(-1, self._rows(positions).expand(weights.shape), weights)
            return sums @ self.value_table.to(wide)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        values = ", values=True" * (self.value_table is not None)
        return f"head_dim={self.head_dim}, max_distance={self.max_distance}{values}"

    def _rows(self, positions: Positions) -> Int64[Tensor, "*batch q k"]:
        """Row of the tables for each pair, `[q, k]` or `[batch, 1, q, k]`."""
        ahead = (-positions.distance()).clamp(-self.max_distance, self.max_distance)
        rows = ahead.long() + self.max_distance  # long() drops the fraction on either side
        return rows if rows.dim() == 2 else rows.unsqueeze(1)
