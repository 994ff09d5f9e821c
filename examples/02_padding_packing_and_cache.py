"""Padding, packing and a cache: Positions says where tokens are, and every encoding reads them from there."""

from __future__ import annotations

import torch

import lengthwise as lw

torch.manual_seed(0)
rotary = lw.Rotary(head_dim=16)
q, k, v = (torch.randn(1, 4, 6, 16) for _ in range(3))
alone = lw.attention(q, k, v, rotary)  # one causal sequence of six tokens

# Padding: two columns of padding on the left. Positions count from the first real token, padding is never seen.
mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1]])
positions = lw.Positions.padded(mask)
print("positions behind padding:", positions.q.tolist())
wide_q, wide_k, wide_v = (torch.cat((torch.randn(1, 4, 2, 16), x), dim=2) for x in (q, k, v))
padded = lw.attention(wide_q, wide_k, wide_v, rotary, positions)
print("padding changes nothing:", torch.allclose(padded[:, :, 2:], alone, atol=1e-5))

# Packing: two documents in one row; each counts from 0 and sees only itself.
positions = lw.Positions.packed([4, 2])
print("positions of two documents:", positions.q.tolist())
packed = lw.attention(q, k, v, rotary, positions)
second = lw.attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], rotary)
print("a document in a pack is the document alone:", torch.allclose(packed[:, :, 4:], second, atol=1e-5))

# A cache of rotated keys: the new token is rotated at its own position, then attends to all.
past, _ = rotary.rotation(lw.Positions.sequence(5))(k[:, :, :5], k[:, :, :5])
step = lw.Positions.step(past=5)
new_q, new_k = rotary.rotation(step.new())(q[:, :, 5:], k[:, :, 5:])
out = lw.attend(new_q, torch.cat((past, new_k), dim=2), v, positions=step)
print("a cached step is the last row of one pass:", torch.allclose(out, alone[:, :, 5:], atol=1e-5))
