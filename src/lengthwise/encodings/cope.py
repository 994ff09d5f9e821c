"""Contextual position encoding: positions counted by gates (Golovneva et al. 2024, 2405.18719, section 4).

    g_ij = sigmoid(q_i · k_j scale),   p_ij = min(sum of g_it over visible keys t from j to i, P - 1)
    z_ij = q_i · e[p_ij], between whole positions on a straight line;   logit(i, j) = (q_i · k_j + z_ij) scale

The facts are those of the authors' code (`facebookresearch/RAM`, `context_position.py`): e begins as zeros, one table
serves all heads of a layer, and gates get scaled products (the paper's formula has no scale, UNVERIFIED). Its option
`cope_nodiv`, here `nodiv=True`, adds z unscaled, as x-transformers does. That code has as many positions as a block
has tokens, and one; here P is 64. Separate keys or values for the gates are not offered.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


@encodings.register("cope")
class CoPE(nn.Module):
    """A key's position is how many keys from it to the query passed a gate that query and key decide.

    Order and visibility count, and nothing else of positions: padding, other segments and keys outside a window pass
    no gate. A logit depends on all keys between, so keys can't be split over machines. With the table at its first
    values, zeros, this is attention without positions.

    Args:
        head_dim: width of a head.
        max_positions: P above, counts of 0 to P - 1; larger counts are read as P - 1.
        nodiv: whether z is added unscaled.

    Raises:
        InvalidArgument: a size below 1.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.CoPE(head_dim=1)
        >>> q, k = torch.ones(1, 1, 1, 1), torch.tensor([0.3, -0.2, 1.0, 0.5]).view(1, 1, 4, 1)
        >>> encoding.counts(q, k, lw.Positions.step(3), scale=1.0)
        tensor([[[[2.3781, 1.8037, 1.3535, 0.6225]]]])
    """

    formula: ClassVar[str] = "logit(i, j) = q_i · (k_j + e[p_ij]) / sqrt(head_dim),  p_ij = sum_(t=j)^i sigmoid(logit)"
    paper: ClassVar[str] = "Golovneva et al. 2024, arXiv 2405.18719, section 4"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant"})
    direction: ClassVar[str] = "causal"

    def __init__(self, head_dim: int, max_positions: int = 64, nodiv: bool = False) -> None:
        super().__init__()
        if head_dim < 1 or max_positions < 1:
            raise InvalidArgument(
                f"CoPE needs a head_dim and max_positions of at least 1, not {head_dim} and {max_positions}"
            )
        self.head_dim, self.max_positions, self.nodiv = head_dim, max_positions, nodiv
        self.table = nn.Parameter(torch.empty(max_positions, head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the table to zeros."""
        nn.init.zeros_(self.table)

    def attention_logits(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q k"]:
        """Scaled logits of all pairs, float32 or wider, before any mask; those of visible pairs mean something."""
        with torch.autocast(q.device.type, enabled=False):
            content = _products(q, k)
            place = self._count(content * scale, positions)
            of_whole = q.to(content.dtype) @ self.table.to(content.dtype).T  # [batch, heads, q, P]
            below = place.detach().nan_to_num().long()
            above = (below + 1).clamp(max=self.max_positions - 1)
            start = of_whole.gather(-1, below)
            z = start + (place - below) * (of_whole.gather(-1, above) - start)
            return content * scale + z if self.nodiv else (content + z) * scale

    def counts(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q k"]:
        """The contextual positions p, for looking at."""
        with torch.autocast(q.device.type, enabled=False):
            return self._count(_products(q, k) * scale, positions)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"head_dim={self.head_dim}, max_positions={self.max_positions}" + ", nodiv=True" * self.nodiv

    def _count(self, logits: Tensor, positions: Positions) -> Tensor:
        gates = logits.sigmoid()
        visible = positions.visible()
        if visible is not None:
            gates = gates.masked_fill(~(visible if visible.dim() == 2 else visible.unsqueeze(1)), 0.0)
        return _sum_from(gates, positions).clamp(max=self.max_positions - 1)


def _products(q: Tensor, k: Tensor) -> Tensor:
    wide = torch.promote_types(q.dtype, torch.float32)
    return q.to(wide) @ k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], dim=1).transpose(-1, -2)


def _sum_from(x: Tensor, positions: Positions) -> Tensor:
    """For each key of `x [batch, heads, q, k]` the sum over it and all keys that come later in order."""
    if positions.k_order is None:
        return x.flip(-1).cumsum(-1).flip(-1)
    order = positions.k_order.argsort(dim=-1, descending=True)  # [k] or [batch, k]
    order = order if order.dim() == 1 else order[:, None, None]
    sums = x.gather(-1, order.expand(x.shape)).cumsum(-1)
    return sums.gather(-1, order.argsort(dim=-1).expand(x.shape))
