"""One encoding in your own attention: three ways, from the most explicit to the shortest."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

import lengthwise as lw

torch.manual_seed(0)
batch, heads, length, head_dim = 2, 8, 10, 64
q, k, v = (torch.randn(batch, heads, length, head_dim) for _ in range(3))
positions = lw.Positions.sequence(length)  # causal; positions 0 to 9

# A rotation turns queries and keys, and leaves the rest of your attention as it is.
rotary = lw.Rotary(head_dim)
turned_q, turned_k = rotary.rotation(positions)(q, k)
by_hand = scaled_dot_product_attention(turned_q, turned_k, v, is_causal=True)
print("rotary, explicit and in one call, agree:", torch.allclose(by_hand, lw.attention(q, k, v, rotary), atol=1e-5))

# A bias is added to the logits, behind the 1/sqrt(head_dim) scale; dense() gives it as [heads, q, k].
alibi = lw.ALiBi(heads)
bias = alibi.logit_bias(positions).dense()
mask = bias.masked_fill(~torch.ones(length, length, dtype=torch.bool).tril(), float("-inf"))
by_hand = scaled_dot_product_attention(q, k, v, attn_mask=mask)
print("alibi, explicit and in one call, agree:", torch.allclose(by_hand, lw.attention(q, k, v, alibi), atol=1e-5))

# Many layers share one encoding: prepare it once a forward.
prepared = lw.prepare(lw.build("t5", lw.Dims(dim=512, heads=heads)), positions)
for _ in range(3):
    q = lw.attention(q, k, v, prepared)
print("after three layers:", list(q.shape))
