"""Attention within chunks of positions, as Llama 4 has it on the layers that rotate.

    logit(i, j) += 0 where floor(i / chunk) = floor(j / chunk), -inf elsewhere

`transformers` (`Llama4TextConfig.attention_chunk_size`) has chunks of 8192. A token at the start of a chunk sees itself
alone, whatever stands before it: the layers without chunks carry what is further back.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import PairBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


@encodings.register("chunks")
class Chunks(nn.Module):
    """No bias within a chunk of positions, -inf between chunks; the same for all heads.

    Args:
        heads: number of query heads.
        chunk: number of positions in a chunk.

    Example:
        >>> import lengthwise as lw
        >>> lw.Chunks(heads=1, chunk=2).logit_bias(lw.Positions.sequence(3)).dense()
        tensor([[[0., 0., -inf],
                 [0., 0., -inf],
                 [-inf, -inf, 0.]]])
    """

    formula: ClassVar[str] = "logit(i, j) += 0 where ⌊i / chunk⌋ = ⌊j / chunk⌋, -inf elsewhere"
    paper: ClassVar[str] = "Llama 4, Meta 2025; transformers, models/llama4"
    claims: ClassVar[frozenset[str]] = frozenset({"nonpositive", "pairwise"})

    def __init__(self, heads: int, chunk: int = 8192) -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"Chunks needs at least 1 head, not {heads}")
        if chunk < 1:
            raise InvalidArgument(f"chunk must be at least 1, not {chunk}")
        self.heads, self.chunk = heads, chunk

    def logit_bias(self, positions: Positions) -> PairBias:
        """The bias at `positions`, in float32."""
        return PairBias(self.of_pair, positions)

    def of_pair(self, q: Tensor, k: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias of query positions `[..., q, 1]` and key positions `[..., 1, k]`."""
        chunk = torch.div(q, self.chunk, rounding_mode="floor"), torch.div(k, self.chunk, rounding_mode="floor")
        apart = chunk[0] != chunk[1]
        values = torch.zeros_like(apart, dtype=torch.float32).masked_fill(apart, -torch.inf)
        return values.expand(self.heads, *values.shape)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}, chunk={self.chunk}"
