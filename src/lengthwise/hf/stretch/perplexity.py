"""How well a model predicts each part of a text: losses by block of positions, from one pass, with bounded memory.

The body of the model runs once over the whole window; its attention is then causal without a mask, which `sdpa` does
in memory that grows with the length. The head, which is as wide as the vocabulary, reads a few hundred positions at a
time.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument

BLOCK = 64
"""Tokens of one stored loss; lengths are multiples of it."""
HEAD_ROWS = 512
"""Positions whose logits exist at once: 100 MB at a vocabulary of 49152."""


def block_losses(model: Any, tokens: Int64[Tensor, " length"]) -> Float[Tensor, " blocks"]:
    """Mean loss, in nats a token, of each block of `BLOCK` tokens; block 0 lacks the first token, which none predicts.

    Args:
        model: a causal language model of `transformers`.
        tokens: one text, a multiple of `BLOCK` tokens.

    Raises:
        InvalidArgument: another length.
    """
    length = len(tokens)
    if length == 0 or length % BLOCK:
        raise InvalidArgument(f"block_losses takes a multiple of {BLOCK} tokens, not {length}")
    losses = torch.empty(length - 1, dtype=torch.float64)
    with torch.inference_mode():
        hidden = body(model, tokens.unsqueeze(0).to(model.device), use_cache=False).last_hidden_state[0]
        for start in range(0, length - 1, HEAD_ROWS):
            end = min(start + HEAD_ROWS, length - 1)
            losses[start:end] = token_losses(logits_of(model, hidden[start:end]), tokens[start + 1 : end + 1])
    first, rest = losses[: BLOCK - 1].mean(), losses[BLOCK - 1 :].view(-1, BLOCK).mean(dim=1)
    return torch.cat((first.unsqueeze(0), rest))


def token_losses(logits: Float[Tensor, "tokens vocabulary"], tokens: Int64[Tensor, " tokens"]) -> Tensor:
    """Loss of each token in nats, in float32 or wider."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return nn.functional.cross_entropy(wide, tokens.to(wide.device), reduction="none").cpu()


def body(model: Any, tokens: Int64[Tensor, "batch length"], **settings: Any) -> Any:
    """The model without its head."""
    return model.base_model(input_ids=tokens, **settings)


def logits_of(model: Any, hidden: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens vocabulary"]:
    """The model's head, with what some architectures do after it: scales, and logits pressed between two ends."""
    logits = model.get_output_embeddings()(hidden)
    config = model.config
    logits = logits * (getattr(config, "logit_scale", None) or 1.0)
    logits = logits / (getattr(config, "logits_scaling", None) or 1.0)
    cap = getattr(config, "final_logit_softcapping", None)
    return logits if not cap else torch.tanh(logits / cap) * cap


def check_head(model: Any, tokens: Int64[Tensor, " length"]) -> None:
    """Hold body and head, called apart, against the model called as a whole.

    Raises:
        InvalidArgument: the architecture does more between or after them than is known here.
    """
    few = tokens[:16].unsqueeze(0).to(model.device)
    try:
        with torch.inference_mode():
            whole = model(input_ids=few, use_cache=False).logits[0]
            apart = logits_of(model, body(model, few, use_cache=False).last_hidden_state[0])
    except (AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"{type(model).__name__} is no causal language model that can be measured: {error}"
        ) from error
    if not torch.allclose(whole, apart, rtol=1e-3, atol=1e-3):
        raise InvalidArgument(
            f"{type(model).__name__} does more in its head than is known here, so that it can't be measured"
        )
