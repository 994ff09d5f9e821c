"""What order does to a model: the same tokens read in two orders.

Without a positional encoding an encoder can't know order: permuted tokens give the permuted states, exactly. A decoder
without one knows more, since its mask shows each token another number of others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import cosine_similarity

from lengthwise.analysis.record import record
from lengthwise.errors import InvalidArgument
from lengthwise.models.decoder import Decoder
from lengthwise.models.encoder import Encoder


@dataclass(frozen=True, eq=False)
class OrderEffect:
    """How the state of each token differs between two orders.

    Args:
        similarity: cosine of the two states of each token, `[layers + 1, batch, length]` in the first order; layer 0 is
            the embedding.
        largest: largest absolute difference of any number in the last states, relative to their largest.
    """

    similarity: Float[Tensor, "states batch length"]
    largest: float

    @property
    def by_layer(self) -> list[float]:
        """Mean similarity after each layer."""
        return [float(one.mean()) for one in self.similarity]


def order_effect(
    model: Decoder | Encoder, tokens: Int64[Tensor, "batch length"], order: Int64[Tensor, " length"]
) -> OrderEffect:
    """Let a model read `tokens` and `tokens[:, order]`, and compare the two states of each token.

    Raises:
        InvalidArgument: `order` is no permutation of the places.
    """
    if sorted(order.tolist()) != list(range(tokens.shape[1])):
        raise InvalidArgument(f"order must hold each place from 0 to {tokens.shape[1] - 1} once, not {order.tolist()}")
    straight, moved = record(model, tokens).hidden, record(model, tokens[:, order]).hidden
    back = order.argsort()
    pairs = [(a, b[:, back]) for a, b in zip(straight, moved, strict=True)]
    last, other = pairs[-1]
    return OrderEffect(
        torch.stack([cosine_similarity(a, b, dim=-1) for a, b in pairs]),
        float((last - other).abs().max() / last.abs().max()),
    )


def similarity_across_places(
    model: Decoder | Encoder, token: int, length: int, layer: int = -1
) -> Float[Tensor, "length length"]:
    """Cosine between the states of one token repeated at every place: all ones where a model knows no position."""
    state = record(model, torch.full((1, length), token)).hidden[layer][0]
    return cosine_similarity(state.unsqueeze(1), state.unsqueeze(0), dim=-1)
