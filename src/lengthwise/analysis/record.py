"""What a model computes on the way: attention and hidden states of every layer, of one forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from lengthwise.attention.reference import masked_logits, probabilities
from lengthwise.models.decoder import Decoder
from lengthwise.models.encoder import Encoder
from lengthwise.models.layers import Block
from lengthwise.positions import Positions


@dataclass(frozen=True, eq=False)
class Record:
    """Attention and hidden states of one forward.

    Args:
        logits: one `[batch, heads, length, length]` a layer, scaled and with any bias, -inf at what can't be seen.
        weights: the same after softmax; a row that sees nothing is all zeros.
        hidden: `[batch, length, dim]`: the embeddings, then what leaves each layer, before the last norm.
        output: `[batch, length, vocabulary]`.
    """

    logits: tuple[Float[Tensor, "batch heads length length"], ...]
    weights: tuple[Float[Tensor, "batch heads length length"], ...]
    hidden: tuple[Float[Tensor, "batch length dim"], ...]
    output: Float[Tensor, "batch length vocabulary"]


@torch.no_grad()
def record(
    model: Decoder | Encoder, tokens: Int64[Tensor, "batch length"], positions: Positions | None = None
) -> Record:
    """Run a model once and keep its attention and hidden states; it is left as it is, and dropout is off.

    Attention is computed a second time by the reference, since no fast road forms it: keep to some thousand tokens.

    Args:
        model: a `Decoder` or an `Encoder`.
        tokens: ids.
        positions: where they stand, as the model's own argument.
    """
    logits: list[Tensor] = []
    weights: list[Tensor] = []
    hidden: list[Tensor] = []

    def attends(module: Any, inputs: tuple[Any, ...]) -> None:
        x, shared, _, layer = inputs
        if shared.ready.readers:
            shared = shared.read(x, None, layer)
        q, k = module.heads(module.q(x)), module.heads(module.k(x))
        if shared.rotation is not None:
            q, k = shared.rotation(q, k)
        logits.append(masked_logits(q, k, shared.request))
        weights.append(probabilities(logits[-1], shared.request))

    def enters(module: Any, inputs: tuple[Any, ...]) -> None:
        hidden.append(inputs[0])

    was_training = model.training
    model.eval()
    hooks = [block.register_forward_pre_hook(enters) for block in blocks(model)]
    hooks += [block.attention.register_forward_pre_hook(attends) for block in blocks(model)]
    hooks.append(model.stack.norm.register_forward_pre_hook(enters))
    try:
        output = model(tokens, positions)
    finally:
        for hook in hooks:
            hook.remove()
        model.train(was_training)
    return Record(tuple(logits), tuple(weights), tuple(hidden), output)


def blocks(model: Decoder | Encoder) -> list[Block]:
    """The layers of a model, in order."""
    return [block for block in model.stack.blocks if isinstance(block, Block)]
