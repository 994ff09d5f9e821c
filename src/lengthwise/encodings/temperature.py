"""The temperature of queries that grows with their position (Llama 4, in `transformers`).

    q_p <- (1 + scale ln(1 + floor((p + offset) / span))) q_p,   span = 8192, scale = 0.1

Attention over many keys grows flat; far queries sharpen theirs. Llama 4 uses it in the layers without RoPE only. There
p is the index in the cache, which differs from the position in rows padded on the left; here it is the position.
Ministral 3 leaves the offset out: `offset=0`.
"""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.query_key import QueryScale


@encodings.register("temperature")
class QueryTemperature(nn.Module):
    """Multiplies each query by a number that grows with its position; keys stay as they are.

    Args:
        floor: how many positions share one number, the length up to which it is 1.
        scale: how fast it grows.
        offset: added to positions: 1 in Llama 4, 0 in Ministral 3.

    Example:
        >>> import torch, lengthwise as lw
        >>> far = torch.tensor([8190, 8191, 131071])
        >>> lw.QueryTemperature().rotation(lw.Positions(far, far)).factor
        tensor([1.0000, 1.0693, 1.2833])
    """

    formula: ClassVar[str] = "q_p <- (1 + s ln(1 + floor((p + offset) / floor))) q_p"
    paper: ClassVar[str] = "Llama 4, in transformers models/llama4"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})

    def __init__(self, floor: int = 8192, scale: float = 0.1, offset: int = 1) -> None:
        super().__init__()
        if floor < 1 or not scale >= 0 or offset < 0:
            raise InvalidArgument(
                f"QueryTemperature needs a floor of at least 1, a scale and an offset of at least 0, "
                f"not {floor}, {scale} and {offset}"
            )
        self.floor, self.scale, self.offset = floor, float(scale), offset

    def rotation(self, positions: Positions) -> QueryScale:
        """What queries at `positions` are multiplied by, float32; 1 before position 0."""
        q = positions.one_axis()[0].to(widest_float(positions.device))
        whole = ((q + self.offset) / self.floor).floor().clamp(min=0.0)
        return QueryScale((1 + self.scale * whole.log1p()).float())

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"floor={self.floor}, scale={self.scale:g}, offset={self.offset}"
