"""An encoding that reads hidden states, in an attention layer of your own, with padding and a cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import lengthwise as lw

DIM, HEADS = 32, 4


class Layer(nn.Module):
    """Attention whose encoding decides from hidden states how fast each head forgets."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(DIM, 3 * DIM, bias=False)
        self.encoding = lw.build("fox + rotary", lw.Dims(DIM, HEADS))

    def forward(self, x: Tensor, positions: lw.Positions, cache: dict[str, Any] | None = None) -> Tensor:
        """Attend; `cache` holds keys, values and what the encoding keeps of the tokens before."""
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
        ready = lw.prepare(self.encoding, positions, training=self.training)
        ready, state = ready.read(x, None if cache is None else cache.get("state"))
        q, k = ready.rotation_of_new()(q, k)  # new keys at their own positions; the cache holds rotated ones
        if cache is not None:
            past = cache.get("keys and values", (k[:, :, :0], v[:, :, :0]))
            k, v = (torch.cat(pair, dim=2) for pair in zip(past, (k, v), strict=True))
            cache.update({"keys and values": (k, v), "state": state})
        return lw.attend(q, k, v, ready.bias, ready.positions).transpose(1, 2).flatten(2)


torch.manual_seed(0)
layer = Layer().eval()
x = torch.randn(2, 6, DIM)
mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])  # the first row has two columns of padding

with torch.no_grad():
    whole = layer(x, lw.Positions.padded(mask))
    cache: dict[str, Any] = {}
    steps = [layer(x[:, :4], lw.Positions.padded(mask[:, :4]), cache)]  # the prompts, then token after token
    steps += [layer(x[:, t : t + 1], lw.Positions.padded(mask[:, : t + 1], new=1), cache) for t in (4, 5)]
    alone = layer(x[:1, 2:], lw.Positions.sequence(4))

print("decoding with a cache is one pass:", torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-6))
print("padding changes nothing:", torch.allclose(whole[:1, 2:], alone, atol=1e-6))
