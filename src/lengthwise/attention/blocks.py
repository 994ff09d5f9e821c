"""Attention a block of queries at a time, for whatever has no structure: memory of length times block.

Each block sees the keys that causality leaves it, forms its own part of the bias or of whole logits, and forgets them:
where gradients are needed they are formed again in the backward pass (`torch.utils.checkpoint`). What fits into one
block is kept. A bias that an operator can be given goes by `tiles`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from lengthwise.attention.merge import log_sum_exp, merge
from lengthwise.attention.request import Request, Run, backends
from lengthwise.attention.slices import Slices
from lengthwise.attention.tiles import attend_by_tiles, refuses_tiles
from lengthwise.errors import InvalidArgument
from lengthwise.precision import autocasts, transforms_active, with_rows

_ROWS = 256
"""Queries of a block whose logits are never held."""
_MASK = 2**23
"""Numbers that a mask for these holds at most."""
_PAIRS = 2**21
"""Pairs of one head's queries and keys, times heads and batch, that a block holds at most."""

Formed = Callable[[slice, slice], tuple[Tensor, list[slice]]]
"""From rows and columns to logits that are formed already, and the keys that these are of."""


class Blocks:
    """A block of queries at a time, formed again for the backward pass."""

    gives_lse = True

    def refuses(self, request: Request) -> str | None:
        """Only dropout, and what a compiler would have to unroll."""
        if torch.compiler.is_compiling():
            reason = refuses_tiles(request)
            if reason is not None:
                return f"{reason}, and a compiler would unroll the loop over blocks, anew for each length"
        if request.logits is not None and not (inspect.ismethod(request.logits) or hasattr(request.logits, "part")):
            return "what hidden states decided of whole logits can't be parted"
        if request.dropout:
            return "what dropout drew in a block would be drawn anew in its backward pass"
        return None

    def cost(self, request: Request) -> float:
        """Above every road that knows a structure; below a dense bias of more than a block."""
        if torch.compiler.is_compiling():  # it would make a graph for either answer
            return 8.0 if request.q_length == 1 else 3.5
        pairs = request.batch * request.heads * request.q_length * request.k_length
        return 3.5 if pairs > _PAIRS else 8.0

    def plan(self, request: Request) -> Run:
        """Nothing is formed before the call."""
        return _blockwise(request)


backends.register("blocks")(Blocks())


def _blockwise(request: Request) -> Run:
    queries, keys = request.q_length, request.k_length
    positions = request.positions
    falls = positions.causal and positions.q_order is None and positions.k_order is None
    rows = max(1, min(queries, _PAIRS // max(1, request.batch * request.heads * keys)))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        if autocasts(q.device.type) and q.dtype != torch.float64:
            q, k, v = (x.to(torch.get_autocast_dtype(q.device.type)) for x in (q, k, v))
        if _can_fuse(request, v):
            return _fused(request, q, k, v, falls)
        if (rows < queries or torch.compiler.is_compiling()) and refuses_tiles(request) is None:
            return attend_by_tiles(request, q, k, v)
        ready = getattr(request.logits, "ready", None)
        formed: Formed | None = None if ready is None else ready(q, k, request.scale)
        outs: list[Any] = []
        several = rows < queries
        of_q, of_k, of_v = Slices(q, several), Slices(k, several), Slices(v, several)
        # The last rows, which see most, first: what they free has room for all others. The other way round each block
        # would be a little too large for the gap that the one before has left, and memory grow with the square.
        for start in reversed(range(0, queries, rows)):
            stop = min(start + rows, queries)
            last = keys - queries + stop if falls else keys  # the key of the last query of the block
            mine, seen = slice(start, stop), slice(0, last)
            block, given = _attention_of(request, formed, mine, seen), (of_q(mine), of_k(seen), of_v(seen))
            if torch.is_grad_enabled() and several and not transforms_active():  # which can't form anew
                outs.append(checkpoint(block, *given, use_reentrant=False, preserve_rng_state=False))
            else:
                outs.append(block(*given))
        outs.reverse()
        if not request.lse:
            return torch.cat(outs, dim=2)
        return torch.cat([out for out, _ in outs], dim=2), torch.cat([lse for _, lse in outs], dim=2)

    return run


def _can_fuse(request: Request, v: Tensor) -> bool:
    plain = request.bias is None and not request.normalizes and v.shape[-1] == request.head_dim
    asked = plain and hasattr(request.logits, "pieces") and request.device.type == "cpu"
    return asked and not torch.is_grad_enabled() and not transforms_active()


def _fused(request: Request, q: Tensor, k: Tensor, v: Tensor, falls: bool) -> Tensor | tuple[Tensor, Tensor]:
    """Pairs of one kind by PyTorch's fused kernel, and what they give merged: no logits are held."""
    queries, keys, dtype = request.q_length, request.k_length, q.dtype
    logits: Any = request.logits
    turned = logits.turned(q, k, request.scale)
    v = with_rows(v.to(torch.promote_types(v.dtype, torch.float32)))
    rows_at_once = _ROWS if request.positions.plain else max(1, min(_ROWS, _MASK // (request.positions.batch * keys)))
    out = v.new_zeros(request.batch, request.heads, queries, v.shape[-1], dtype=dtype)
    lse = v.new_full((request.batch, request.heads, queries), float("-inf"))
    for start in reversed(range(0, queries, rows_at_once)):
        rows = slice(start, min(start + rows_at_once, queries))
        columns = slice(0, keys - queries + rows.stop if falls else keys)
        pieces = logits.pieces(rows, columns)
        found = [_kernel(turned(piece.number), v, rows, piece.keys, piece.mask) for piece in pieces]
        if found:
            mine, lse[:, :, rows] = found[0] if len(found) == 1 else merge(found)
            out[:, :, rows] = mine.to(dtype)
    return (out, lse) if request.lse else out


def _kernel(
    turned: tuple[Tensor, Tensor], v: Tensor, rows: slice, keys: slice, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp; query heads that share keys are rows of one head: no copy of the keys."""
    q, k = turned
    batch, heads, _, head_dim = q.shape
    shared = heads // k.shape[1]
    if mask is not None:
        if shared * mask.numel() > _MASK:  # rather copies of the keys than many of the mask
            k, v, shared = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1), 1
        mask = mask.to(q.dtype).repeat(1, 1, shared, 1)
    q = q[:, :, rows].reshape(batch, k.shape[1], -1, head_dim)
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        with_rows(q), with_rows(k[:, :, keys]), v[:, :, keys], attn_mask=mask, scale=1.0
    )
    if mask is not None:  # of a row that sees nothing the kernel says another number than -inf
        lse = lse.masked_fill((mask == float("-inf")).all(dim=-1), float("-inf"))
    return out.reshape(batch, heads, -1, v.shape[-1]), lse.reshape(batch, heads, -1)


def _attention_of(request: Request, formed: Formed | None, rows: slice, columns: slice) -> Run:
    def block(q: Tensor, k: Tensor, v: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        with torch.autocast(q.device.type, enabled=False):
            if formed is None:
                return _attend(request, rows, columns, q, k, v)
            return _attend_formed(request, rows, *formed(rows, columns), q, v)

    return block


def _attend_formed(
    request: Request, rows: slice, logits: Tensor, spans: list[slice], q: Tensor, v: Tensor
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention to some keys only, of logits that are formed already."""
    parts: list[Tensor] = []
    for keys, mine in zip(spans, logits.split([keys.stop - keys.start for keys in spans], dim=-1), strict=True):
        if request.bias is not None:
            mine = mine + request.checked(request.bias.block(rows, keys), mine.shape[-2], mine.shape[-1])
        visible = request.positions.part(rows, keys).visible()
        if visible is not None:
            mine = mine.masked_fill(~(visible if visible.dim() == 2 else visible.unsqueeze(1)), float("-inf"))
        parts.append(mine)
    v = v[:, :, spans[0]] if len(spans) == 1 else torch.cat([v[:, :, keys] for keys in spans], dim=2)
    return _weigh(request, parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1), v, q.dtype)


def _attend(
    request: Request, rows: slice, columns: slice, q: Tensor, k: Tensor, v: Tensor
) -> Tensor | tuple[Tensor, Tensor]:
    positions = request.positions.part(rows, columns)
    visible = positions.visible()
    if visible is not None:
        visible = visible if visible.dim() == 2 else visible.unsqueeze(1)  # [batch, 1, rows, columns]
    queries, keys = q.shape[2], k.shape[2]
    bias = None if request.bias is None else request.checked(request.bias.block(rows, columns), queries, keys)
    if request.logits is None and not request.lse and (bias is None or not (bias.requires_grad or transforms_active())):
        mask = visible
        if bias is not None:
            if q.device.type == "cpu" and q.dtype != torch.float64:
                mask = bias.float()
            else:  # far distances may overflow, and what bars a pair stays
                mask = bias.to(q.dtype).clamp(min=torch.finfo(q.dtype).min)
                mask = mask.masked_fill(bias == float("-inf"), float("-inf"))
            mask = mask if visible is None else mask.masked_fill(~visible, float("-inf"))
        return scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=request.scale, enable_gqa=request.heads != request.kv_heads
        )
    group, wide = request.heads // request.kv_heads, torch.promote_types(q.dtype, torch.float32)
    k = k if group == 1 else k.repeat_interleave(group, dim=1)
    if request.logits is None:
        logits = torch.matmul(q.to(wide) * request.scale, k.to(wide).transpose(-1, -2))
    else:
        part = getattr(request.logits, "part", None)
        compute = request.logits if part is None else part(rows, columns)
        logits = compute(q, k, positions, request.scale).to(wide)
        expected = (request.batch, request.heads, queries, keys)
        if logits.shape != expected:
            raise InvalidArgument(f"attention_logits returned {list(logits.shape)}, and not {list(expected)}")
    if bias is not None:
        logits = logits + bias
    if visible is not None:
        logits = logits.masked_fill(~visible, float("-inf"))
    return _weigh(request, logits, v, q.dtype)


def _weigh(request: Request, logits: Tensor, v: Tensor, dtype: torch.dtype) -> Tensor | tuple[Tensor, Tensor]:
    """Values weighed by logits `[batch, heads, rows, keys]`, whose masks are in them."""
    if request.normalizes:  # the logits are logarithms of the weights
        weights = logits.exp()
    else:
        some = logits.amax(dim=-1, keepdim=True) != float("-inf")
        if torch.is_grad_enabled():
            weights = logits.masked_fill(~some, 0.0).softmax(dim=-1).masked_fill(~some, 0.0)
        else:
            weights = logits.softmax(dim=-1).masked_fill_(~some, 0.0)
    # Query heads that share values are rows of one product: no copy of the values.
    grouped = weights.reshape(logits.shape[0], v.shape[1], -1, logits.shape[-1])
    out = torch.matmul(grouped, v.to(weights.dtype)).view(*logits.shape[:3], v.shape[-1]).to(dtype)
    return (out, log_sum_exp(logits, dim=-1)) if request.lse else out
