"""A bidirectional Transformer: every token sees all others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.models.config import ModelConfig
from lengthwise.models.layers import Stack, reset_parameters
from lengthwise.positions import Positions


class Encoder(nn.Module):
    """Predicts a token at every place from the whole sequence, as in BERT (Devlin et al. 2018).

    Args:
        config: sizes, with a vocabulary.
        encoding: one module that all layers share, a sequence with one for each layer, or None; T5's bias in its
            bidirectional form.
    """

    def __init__(self, config: ModelConfig, encoding: nn.Module | Sequence[nn.Module] | None = None) -> None:
        super().__init__()
        if config.vocabulary < 1:
            raise InvalidArgument("Encoder needs ModelConfig.vocabulary, the number of token ids, of at least 1")
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.dim)
        self.stack = Stack(config, encoding)
        self.head = nn.Linear(config.dim, config.vocabulary, bias=False)
        reset_parameters(self.embedding, self.head, self.stack)
        if config.tied:
            self.head.weight = self.embedding.weight

    def forward(
        self,
        tokens: Int64[Tensor, "batch length"],
        positions: Positions | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "batch length vocabulary"]:
        """Logits at every place; for padding pass `Positions.padded(attention_mask, causal=False)`."""
        if tokens.dim() != 2:
            raise InvalidArgument(f"tokens must be [batch, length], not of shape {list(tokens.shape)}")
        if positions is None:
            positions = Positions.sequence(tokens.shape[1], causal=False, device=tokens.device)
        x = self.embedding(tokens) * self.config.dim**0.5
        return self.head(self.stack(x, positions, None, generator))
