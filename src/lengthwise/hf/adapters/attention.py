"""Attention of this package as an attention function of `transformers`, under the name "lengthwise"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from lengthwise.attention import attention
from lengthwise.errors import InvalidArgument
from lengthwise.hf.adapters.places import Forward, Seen
from lengthwise.positions import Positions
from lengthwise.sites import Logits

NAME = "lengthwise"


def attend_raw(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: object,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    lengthwise: tuple[nn.Module, Forward] | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention with the encoding that `apply_to` gave the layer, over keys as the layer projected them."""
    if lengthwise is None:
        raise InvalidArgument("the attention function 'lengthwise' is set by lengthwise.hf.apply_to, not by its name")
    if not isinstance(attention_mask, Seen):
        raise InvalidArgument(
            "apply_to takes the mask of the tokenizer, [batch, keys], and not one of pairs of queries and keys"
        )
    encoding, forward = lengthwise
    ready = forward.prepared(encoding, attention_mask)
    if softcap is not None:
        if ready.normalizes:
            raise InvalidArgument("an encoding that normalizes its rows by itself has no logits that a cap could bound")
        ready = replace(ready, logits=Capped(ready.logits, softcap))
    out = attention(query, key, value, ready, scale=scaling, dropout=dropout)
    return out.transpose(1, 2).contiguous(), None  # [batch, new, heads, head_dim]


def seen(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    **_: Any,
) -> Seen:
    """What the mask would say, in memory that does not grow with its size."""
    window = None if local_size is None else local_size - 1  # transformers count the token itself
    return Seen(attention_mask, int(q_offset), int(kv_offset), q_length, kv_length, window)


@dataclass(frozen=True, eq=False)
class Capped:
    """Logits bounded to plus or minus `cap` by `cap * tanh(logits / cap)`, as Gemma 2 does before its mask."""

    logits: Logits | None
    cap: float

    def __call__(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        """Logits `[batch, heads, q, k]`, capped."""
        if self.logits is not None:
            whole = self.logits(q, k, positions, scale)
        else:
            group, wide = q.shape[1] // k.shape[1], torch.promote_types(q.dtype, torch.float32)
            k = k.repeat_interleave(group, dim=1)
            whole = torch.matmul(q.to(wide), k.to(wide).transpose(-1, -2)) * scale
        return self.cap * torch.tanh(whole / self.cap)

    def part(self, rows: slice, columns: slice) -> Logits:
        """The same for some queries and keys."""
        own = getattr(self.logits, "part", None)
        return Capped(self.logits if own is None else own(rows, columns), self.cap)


AttentionInterface.register(NAME, attend_raw)
AttentionMaskInterface.register(NAME, seen)
