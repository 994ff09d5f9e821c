"""Stick-breaking attention: nearer keys take their part first (Tan et al. 2024, 2410.17980, section 2).

    b_ij = sigmoid(q_i · k_j scale),   weight(i, j) = b_ij · product over visible keys t between j and i of (1 - b_it)

The query's own key is left out, or seen first with `attend_current`. The weights of a row sum to at most 1; what is
left, the remainder, is the part of the stick that no key took. No softmax is taken and no position is read.
All in log space, as in the authors' code (`shawntan/stickbreaking-attention`, `sb_ref.py`), whose test gives
the remainder to the query's own value: `out + remainder[..., None] * v`.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from lengthwise.encodings.registry import encodings
from lengthwise.positions import Positions


@encodings.register("stick_breaking")
class StickBreaking(nn.Module):
    """Each key, from the nearest on, takes a part of what the nearer ones left.

    The logits are logarithms of the weights themselves (`normalizes`), -inf where a key gets none. Order and
    visibility count: padding, other segments and keys outside a window take nothing. A weight depends on all keys
    between, so keys can't be split over machines.

    Args:
        attend_current: whether a token sees itself.

    Example:
        >>> import torch, lengthwise as lw
        >>> q, k = torch.ones(1, 1, 1, 1), torch.tensor([0.2, 0.3, 0.4, 9.0]).view(1, 1, 4, 1)
        >>> encoding, positions = lw.StickBreaking(), lw.Positions.step(3)
        >>> encoding.attention_logits(q, k, positions, scale=1.0).exp()
        tensor([[[[0.0939, 0.2305, 0.5987, 0.0000]]]])
        >>> encoding.remainder(q, k, positions, scale=1.0)
        tensor([[[0.0769]]])
    """

    formula: ClassVar[str] = "weight(i, j) = b_ij prod_(t=j+1)^(i-1) (1 - b_it),  b_ij = sigmoid(q_i · k_j / sqrt(d))"
    paper: ClassVar[str] = "Tan et al. 2024, arXiv 2410.17980, section 2"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant"})
    direction: ClassVar[str] = "causal"
    normalizes: ClassVar[bool] = True

    def __init__(self, attend_current: bool = False) -> None:
        super().__init__()
        self.attend_current = attend_current

    def attention_logits(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q k"]:
        """Logarithms of the weights, float32 or wider, -inf at pairs without any."""
        with torch.autocast(q.device.type, enabled=False):
            logits, seen = _products(q, k) * scale, self._seen(positions)
            left = logsigmoid(-logits).masked_fill(~seen, 0.0)  # log of what each key leaves
            return (logsigmoid(logits) + _sum_after(left, positions)).masked_fill(~seen, float("-inf"))

    def remainder(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q"]:
        """One less the sum of each row's weights, exact where that difference would cancel; 1 for no key."""
        with torch.autocast(q.device.type, enabled=False):
            left = logsigmoid(-_products(q, k) * scale)
            return left.masked_fill(~self._seen(positions), 0.0).sum(-1).exp()

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"attend_current={self.attend_current}"

    def _seen(self, positions: Positions) -> Bool[Tensor, "*batch q k"]:
        """Pairs with a weight, `[q, k]` or `[batch, 1, q, k]`."""
        q_order, k_order = positions.orders()
        seen = positions.visible()
        back = q_order.unsqueeze(-1) - k_order.unsqueeze(-2)
        earlier = back >= 0 if self.attend_current else back > 0
        seen = earlier if seen is None else seen & earlier
        return seen if seen.dim() == 2 else seen.unsqueeze(1)


def _products(q: Tensor, k: Tensor) -> Tensor:
    wide = torch.promote_types(q.dtype, torch.float32)
    return q.to(wide) @ k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], dim=1).transpose(-1, -2)


def _sum_after(x: Tensor, positions: Positions) -> Tensor:
    """For each key of `x [batch, heads, q, k]` the sum over all keys that come later in order, itself left out."""
    if positions.k_order is None:
        return pad(x, (0, 1))[..., 1:].flip(-1).cumsum(-1).flip(-1)
    order = positions.k_order.argsort(dim=-1, descending=True)  # [k] or [batch, k]
    order = order if order.dim() == 1 else order[:, None, None]
    later = pad(x.gather(-1, order.expand(x.shape)), (1, 0))[..., :-1].cumsum(-1)
    return later.gather(-1, order.argsort(dim=-1).expand(x.shape))
