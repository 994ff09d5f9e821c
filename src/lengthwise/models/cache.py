"""Keys and values of the tokens seen so far, and what encodings that read hidden states keep of them."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class KVCache:
    """One pair of tensors a layer, `[batch, kv_heads, tokens so far, head_dim]`, and the state of its encoding.

    Args:
        layers: number of layers that will append to it.
    """

    def __init__(self, layers: int) -> None:
        self._keys: list[Tensor | None] = [None] * layers
        self._values: list[Tensor | None] = [None] * layers
        self.states: list[Any] = [None] * layers

    @property
    def length(self) -> int:
        """Number of tokens that every layer has stored."""
        last = self._keys[-1]
        return 0 if last is None else last.shape[2]

    def append(
        self,
        layer: int,
        k: Float[Tensor, "batch kv_heads new head_dim"],
        v: Float[Tensor, "batch kv_heads new head_dim"],
    ) -> tuple[Float[Tensor, "batch kv_heads all head_dim"], Float[Tensor, "batch kv_heads all head_dim"]]:
        """Store the keys and values of new tokens, and return those of all tokens so far."""
        past_k, past_v = self._keys[layer], self._values[layer]
        if past_k is not None and past_v is not None:
            k, v = torch.cat((past_k, k), dim=2), torch.cat((past_v, v), dim=2)
        self._keys[layer], self._values[layer] = k, v
        return k, v
