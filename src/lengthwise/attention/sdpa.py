"""`torch.nn.functional.scaled_dot_product_attention`, with its causal flag where that is all, else with a mask.

A bias goes in as a dense mask, of heads x q x k numbers, made once a forward. Distances are formed and scaled in
float32; on a CPU the mask stays so, elsewhere it is cast last, since the fused kernels want the queries' dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from lengthwise.attention.request import Request, Run, backends
from lengthwise.precision import autocasts, in_transform


class SDPA:
    """PyTorch's own fused attention."""

    def refuses(self, request: Request) -> str | None:
        """Whole logits can't be given to it."""
        if request.logits is not None:
            return "the encoding computes whole logits, and scaled_dot_product_attention computes q·k itself"
        return None

    def cost(self, request: Request) -> float:
        """A dense bias costs several times the attention itself, a mask of what is seen twice."""
        if request.bias is not None:
            return 4.0
        return 1.0 if request.positions.plain else 2.0

    def plan(self, request: Request) -> Run:
        """Build the mask, if one is needed."""
        mask, causal = attention_mask(request)
        grouped = request.heads != request.kv_heads

        transformed = mask is not None and mask.is_floating_point() and in_transform()

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if transformed:  # a mask that learns looks as if it did not, and the fused kernel would find out too late
                with sdpa_kernel(SDPBackend.MATH):
                    return attend(q, k, v)
            return attend(q, k, v)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=request.dropout, is_causal=causal, scale=request.scale,
                enable_gqa=grouped,
            )  # fmt: skip

        def run_narrow(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            # Autocast would narrow the mask too, in which far distances then are one.
            kind = q.device.type
            narrow = torch.get_autocast_dtype(kind)
            with torch.autocast(kind, enabled=False):
                return run(q.to(narrow), k.to(narrow), v.to(narrow))

        kind = request.device.type
        casts = mask is not None and mask.is_floating_point() and request.dtype != torch.float64
        return run_narrow if casts and autocasts(kind) else run


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
    if request.dtype != torch.float64:
        bias = bias.float()  # it may be formed in float64
    kind = request.device.type
    dtype = torch.get_autocast_dtype(kind) if autocasts(kind) and request.dtype != torch.float64 else request.dtype
    if (kind != "cpu" or dtype == torch.float64) and dtype != bias.dtype:
        if dtype.itemsize < bias.dtype.itemsize:
            # Softmax drops what a row has in common: without it the nearest keys, which decide, keep their digits.
            seen = bias if visible is None else bias.masked_fill(~visible, float("-inf"))
            top = seen.detach().amax(dim=-1, keepdim=True)
            bias = bias - top.masked_fill(top.isinf(), 0.0)
        # In float16 a far distance overflows to -inf, and a row of nothing else would give NaN; what bars a pair stays.
        bars = bias == float("-inf")
        bias = bias.to(dtype).clamp(min=torch.finfo(dtype).min).masked_fill(bars, float("-inf"))
    return bias if visible is None else bias.masked_fill(~visible, float("-inf")), False
