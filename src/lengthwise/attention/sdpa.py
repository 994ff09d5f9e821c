"""`torch.nn.functional.scaled_dot_product_attention`, with its causal flag where that is all, else with a mask.

A bias goes in as a dense mask, of heads x q x k numbers, made once a forward. Distances are formed and scaled in
float32; on a CPU the mask stays so, elsewhere it is cast last, since the fused kernels want the queries' dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lengthwise.attention.request import Request, Run, backends


class SDPA:
    """PyTorch's own fused attention."""

    def refuses(self, request: Request) -> str | None:
        """Whole logits can't be given to it."""
        if request.logits is not None:
            return "the encoding computes whole logits, and scaled_dot_product_attention computes q·k itself"
        return None

    def cost(self, request: Request) -> float:
        """A dense bias costs several times the attention itself."""
        return 1.0 if request.bias is None else 4.0

    def plan(self, request: Request) -> Run:
        """Build the mask, if one is needed."""
        mask, causal = attention_mask(request)
        grouped = request.heads != request.kv_heads

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=request.dropout, is_causal=causal, scale=request.scale,
                enable_gqa=grouped,
            )  # fmt: skip

        return run


backends.register("sdpa")(SDPA())


def attention_mask(request: Request) -> tuple[Tensor | None, bool]:
    """The mask `[1 or batch, 1 or heads, q, k]` (boolean without a bias, else floating) and the causal flag."""
    positions = request.positions
    if request.bias is None and positions.plain:
        if not positions.causal or request.q_length == 1:  # the last token of all sees all
            return None, False
        if request.q_length == request.k_length and request.scale > 0:  # its flag masks first, and 0 * -inf is NaN
            return None, True
    visible = positions.visible()
    if visible is not None:
        visible = visible[None, None] if visible.dim() == 2 else visible.unsqueeze(1)
    bias = request.dense_bias()
    if bias is None:
        return visible, False
    if request.device.type != "cpu" or request.dtype == torch.float64:
        # In float16 a far distance overflows to -inf, and a row of nothing else would give NaN.
        bias = bias.to(request.dtype).clamp(min=torch.finfo(request.dtype).min)
    return bias if visible is None else bias.masked_fill(~visible, float("-inf")), False
