"""Attention in plain arithmetic: it defines what every other backend must give.

    weights = softmax(scale q·k + bias, over visible keys),   out = weights v

All of it in float32 or wider, cast once at the end. A query that sees no key gets zeros.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import dropout

from lengthwise.attention.merge import log_sum_exp
from lengthwise.attention.request import Request, Run, backends
from lengthwise.errors import InvalidArgument


class Reference:
    """The slow clear road; takes everything."""

    gives_lse = True

    def refuses(self, request: Request) -> str | None:
        """Nothing is refused."""
        return None

    def cost(self, request: Request) -> float:
        """Far above any fast road, so that it is chosen where there is no other."""
        return 100.0

    def plan(self, request: Request) -> Run:
        """Keep the request; everything is computed in the call."""

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor | tuple[Tensor, Tensor]:
            logits = masked_logits(q, k, request)
            weights = dropout(probabilities(logits, request), request.dropout)
            with torch.autocast(q.device.type, enabled=False):
                out = (weights @ _for_each_query_head(v, request).to(weights.dtype)).to(q.dtype)
            return (out, log_sum_exp(logits, dim=-1)) if request.lse else out

        return run


backends.register("reference")(Reference())


def attention_probabilities(
    q: Float[Tensor, "batch heads q head_dim"], k: Float[Tensor, "batch kv_heads k head_dim"], request: Request
) -> Float[Tensor, "batch heads q k"]:
    """The softmax over visible keys, float32 or wider; a row that sees none is all zeros.

    Logits of an encoding that normalizes by itself are logarithms of the weights: their exponential is taken.
    """
    return probabilities(masked_logits(q, k, request), request)


def masked_logits(
    q: Float[Tensor, "batch heads q head_dim"], k: Float[Tensor, "batch kv_heads k head_dim"], request: Request
) -> Float[Tensor, "batch heads q k"]:
    """Logits with their bias, float32 or wider, -inf at what can't be seen."""
    wide = torch.promote_types(q.dtype, torch.float32)
    k = _for_each_query_head(k, request)
    if request.logits is not None:
        logits = request.logits(q, k, request.positions, request.scale).to(wide)
        expected = (request.batch, request.heads, request.q_length, request.k_length)
        if logits.shape != expected:
            raise InvalidArgument(f"attention_logits returned {list(logits.shape)}, and not {list(expected)}")
    else:
        with torch.autocast(q.device.type, enabled=False):
            logits = q.to(wide) @ k.to(wide).transpose(-1, -2) * request.scale
    bias = request.dense_bias()
    if bias is not None:
        logits = logits + bias
    visible = request.positions.visible()
    return logits if visible is None else logits.masked_fill(~_by_head(visible), float("-inf"))


def probabilities(logits: Tensor, request: Request) -> Tensor:
    """Weights from masked logits: their softmax, or their exponential where the encoding normalizes by itself."""
    if request.normalizes:  # the logits are logarithms of the weights
        return logits.exp()
    # A row that sees nothing, or nothing but biases of -inf, would give 0/0: it is let see all and then set to zero.
    some = (logits != float("-inf")).any(dim=-1, keepdim=True)
    return logits.masked_fill(~some, 0.0).softmax(dim=-1).masked_fill(~some, 0.0)


def _by_head(visible: Tensor) -> Tensor:
    return visible if visible.dim() == 2 else visible.unsqueeze(1)  # [batch, 1, q, k]


def _for_each_query_head(x: Tensor, request: Request) -> Tensor:
    group = request.heads // request.kv_heads
    return x if group == 1 else x.repeat_interleave(group, dim=1)
