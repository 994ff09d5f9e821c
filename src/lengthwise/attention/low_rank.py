"""A bias of few features as extra features of queries and keys, on PyTorch's fused causal kernel.

    scale q·k + f_q·f_k  =  scale [q, f_q / scale]·[k, f_k]

What a row has in common drops out of its softmax: the row constant, and f_q·c for any one c. So each block of queries
takes the features of its last key as c: those of the keys near it, which decide, are then small and keep their digits,
however far the sums have grown. Values get as many zeros, which are cut off again: the kernel knows one width only.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from lengthwise.attention.request import Request, Run, backends
from lengthwise.attention.toeplitz import by_distance
from lengthwise.bias import LowRankBias
from lengthwise.errors import InvalidArgument
from lengthwise.precision import autocasts

_ROWS = 4096
"""Queries that share a centre."""
_WIDEST = 32
"""Features from which on the wider kernel costs more than a mask."""


class LowRank:
    """Features of queries and keys beside their own, with the kernel's causal flag."""

    def refuses(self, request: Request) -> str | None:
        """Only a low-rank bias, plain causal positions with as many queries as keys, and float32 or wider."""
        if request.logits is not None:
            return "the encoding computes whole logits"
        if not isinstance(request.bias, LowRankBias):
            return "the bias is no product of features"
        if request.bias.q_features.shape[-1] > _WIDEST:
            return f"the bias has more than {_WIDEST} features"
        if not (request.positions.plain and request.positions.causal and request.q_length == request.k_length):
            return "the kernel's causal flag needs plain causal positions and as many queries as keys"
        if request.dropout:
            return "the kernel of its blocks has no dropout"
        kind = request.device.type
        if request.dtype.itemsize < 4 or autocasts(kind):
            return "the features would be rounded to the queries' dtype, in which far keys are one"
        if request.scale <= 0:
            return "the features are divided by the scale, which is not above 0"
        if request.kv_heads != request.heads:
            return "the features of a key differ between the query heads that share it"
        return None

    def cost(self, request: Request) -> float:
        """A few more dims than attention without a bias."""
        return 1.25

    def plan(self, request: Request) -> Run:
        """Centre the features; the rest needs queries and keys."""
        bias = cast(LowRankBias, request.bias)
        if bias.q_features.shape[-3] != request.heads:
            raise InvalidArgument(
                f"the bias is of {bias.q_features.shape[-3]} heads, and this attention has {request.heads} query heads"
            )
        q_features, k_features = (_batched(x, request.batch) for x in (bias.q_features, bias.k_features))

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            outs = [
                _block(q, k, v, q_features, k_features, start, min(start + _ROWS, request.q_length), request)
                for start in range(0, request.q_length, _ROWS)
            ]
            return outs[0] if len(outs) == 1 else torch.cat(outs, dim=2)

        return run


backends.register("low_rank")(LowRank())


def _block(
    q: Tensor, k: Tensor, v: Tensor, q_features: Tensor, k_features: Tensor, start: int, stop: int, request: Request
) -> Tensor:
    centred = (k_features[:, :, :stop] - k_features[:, :, stop - 1 : stop]).to(k.dtype)
    own = (q_features[:, :, start:stop] / request.scale).to(q.dtype)
    wide_q = torch.cat((q[:, :, start:stop], own), dim=-1)
    wide_k = torch.cat((k[:, :, :stop], centred), dim=-1)
    width = max(wide_q.shape[-1], v.shape[-1])
    width += -width % 8  # what the kernel's vectors hold
    wide_q, wide_k, wide_v = (pad(x, (0, width - x.shape[-1])) for x in (wide_q, wide_k, v[:, :, :stop]))
    if start == 0:
        out = scaled_dot_product_attention(wide_q, wide_k, wide_v, is_causal=True, scale=request.scale)
    elif q.device.type == "cpu":
        open_ = wide_q.new_zeros(1, 1).expand(request.heads, stop)
        hidden = wide_q.new_full((1, 1), float("-inf")).expand(request.heads, stop - 1)
        values = torch.cat((hidden, open_), dim=1)
        out = by_distance(wide_q, wide_k, wide_v, values, None, None, request.scale, True, -1)[0]
    else:
        seen = torch.ones(stop - start, stop, dtype=torch.bool, device=q.device).tril(start)
        out = scaled_dot_product_attention(wide_q, wide_k, wide_v, attn_mask=seen, scale=request.scale)
    return out[..., : v.shape[-1]]


def _batched(features: Tensor, batch: int) -> Tensor:
    features = features if features.dim() == 4 else features.unsqueeze(0)
    return features.expand(batch, -1, -1, -1)
