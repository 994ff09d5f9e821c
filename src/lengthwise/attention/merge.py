"""Attention over shards of keys, put together: what a ring of machines needs.

    lse = log sum_s exp(lse_s),   out = sum_s exp(lse_s - lse) out_s

Each shard is attention over some of the keys, at their own positions, with the log-sum-exp of its logits
(`attention(..., return_lse=True)`). Exact for every encoding that claims `pairwise`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.errors import InvalidArgument


def merge(
    shards: Sequence[tuple[Tensor, Tensor]],
) -> tuple[Float[Tensor, "batch heads q value_dim"], Float[Tensor, "batch heads q"]]:
    """Output and log-sum-exp over all keys, from those of each shard.

    Args:
        shards: pairs of output `[batch, heads, q, value_dim]` and log-sum-exp `[batch, heads, q]` of the same queries;
            a row that sees nothing in a shard has -inf there.

    Returns:
        Of the dtype of the first output, and in float32 or wider; differentiable in all.

    Raises:
        InvalidArgument: no shard at all.

    Example:
        >>> import torch, lengthwise as lw
        >>> q = k = v = torch.randn(1, 2, 6, 8)
        >>> near, far = lw.Positions.sequence(6).part(slice(0, 6), slice(3, 6)), slice(0, 3)
        >>> far = lw.Positions.sequence(6).part(slice(0, 6), far)
        >>> one = lw.attention(q, k[:, :, 3:], v[:, :, 3:], lw.ALiBi(2), near, return_lse=True)
        >>> two = lw.attention(q, k[:, :, :3], v[:, :, :3], lw.ALiBi(2), far, return_lse=True)
        >>> torch.allclose(lw.merge([one, two])[0], lw.attention(q, k, v, lw.ALiBi(2)), atol=1e-6)
        True
    """
    if not shards:
        raise InvalidArgument("merge needs at least one shard")
    each = torch.stack([lse for _, lse in shards])  # [shards, batch, heads, q]
    lse = log_sum_exp(each, dim=0)
    weights = (each - lse.masked_fill(lse == float("-inf"), 0.0)).exp().unsqueeze(-1)
    out = torch.stack([out.to(lse.dtype) for out, _ in shards])
    return (weights * out).sum(dim=0).to(shards[0][0].dtype), lse


def log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """Log of the sum of exponentials, whose gradient is zero where all are -inf, and not NaN."""
    some = (x != float("-inf")).any(dim=dim, keepdim=True)
    return x.masked_fill(~some, 0.0).logsumexp(dim=dim).masked_fill(~some.squeeze(dim), float("-inf"))
