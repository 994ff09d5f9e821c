"""A causal Transformer: the model that a laboratory trains with every encoding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.models.cache import KVCache
from lengthwise.models.config import ModelConfig
from lengthwise.models.layers import Stack, reset_parameters
from lengthwise.positions import Positions


class Decoder(nn.Module):
    """Predicts the next token at every place.

    Token embeddings are multiplied by sqrt(dim) (Vaswani et al. 2017, section 3.4), so that they are of unit size
    beside an encoding that is added to them.

    Args:
        config: sizes, with a vocabulary.
        encoding: one module that all layers share, a sequence with one for each layer, or None.

    Example:
        >>> import torch, lengthwise as lw
        >>> from lengthwise.models import Decoder, ModelConfig
        >>> config = ModelConfig(vocabulary=100, dim=64, heads=4)
        >>> model = Decoder(config, lw.build("rotary", config.dims()))
        >>> model(torch.zeros(2, 10, dtype=torch.int64)).shape
        torch.Size([2, 10, 100])
    """

    def __init__(self, config: ModelConfig, encoding: nn.Module | Sequence[nn.Module] | None = None) -> None:
        super().__init__()
        if config.vocabulary < 1:
            raise InvalidArgument("Decoder needs ModelConfig.vocabulary, the number of token ids, of at least 1")
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
        cache: KVCache | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "batch length vocabulary"]:
        """Logits of the next token at every place.

        Args:
            tokens: ids; with a cache, only the new ones.
            positions: None: one sequence a row, the new tokens behind those in the cache.
            cache: keys and values of the tokens before; the new ones are added to it.
            generator: for encodings that draw positions while training.
        """
        if tokens.dim() != 2:
            raise InvalidArgument(f"tokens must be [batch, length], not of shape {list(tokens.shape)}")
        if positions is None:
            past = 0 if cache is None else cache.length
            positions = Positions.step(past, tokens.shape[1], device=tokens.device)
        x = self.embedding(tokens) * self.config.dim**0.5
        return self.head(self.stack(x, positions, cache, generator))

    @torch.no_grad()
    def generate(
        self,
        tokens: Int64[Tensor, "batch length"],
        new: int,
        *,
        attention_mask: Tensor | None = None,
        stop: int | None = None,
    ) -> Int64[Tensor, "batch longer"]:
        """Greedy decoding: append the most likely token up to `new` times, without dropout after `model.eval()`.

        An encoding that follows the length of the sequence is fixed to that of the prompt and `new` tokens.

        Args:
            tokens: prompts, at least one token each.
            new: how many tokens to add at most.
            attention_mask: `[batch, length]`, zero at padding on the left.
            stop: a row that has produced this token repeats it; all rows done ends the loop.

        Raises:
            InvalidArgument: an empty prompt, a mask of another shape, or padding on the right, where a new token could
                not follow.
        """
        if new < 0:
            raise InvalidArgument(f"new is how many tokens to add, and is {new}")
        if tokens.shape[1] == 0:
            raise InvalidArgument("generate needs a prompt of at least one token")
        if attention_mask is not None and attention_mask.shape != tokens.shape:
            raise InvalidArgument(
                f"attention_mask must be of the prompts' shape {list(tokens.shape)}, not {list(attention_mask.shape)}"
            )
        mask = torch.ones_like(tokens, dtype=torch.bool) if attention_mask is None else attention_mask.ne(0)
        if attention_mask is not None and not bool(mask[:, -1].all()):
            raise InvalidArgument(
                "generate needs prompts padded on the left: the last column must be real in every row"
            )
        cache = KVCache(self.config.layers)
        longest = tokens.shape[1] + new  # to which a length-dependent encoding is fixed from the first step on
        read = tokens
        done = torch.zeros(tokens.shape[0], dtype=torch.bool, device=tokens.device)
        for _ in range(new):
            if attention_mask is not None:
                positions = Positions.padded(mask, new=read.shape[1])
            else:
                positions = Positions.step(cache.length, read.shape[1], device=tokens.device)
            if self.stack.follows_length:
                positions = positions.with_target(longest)
            read = self(read, positions, cache)[:, -1:].argmax(-1)  # [batch, 1]
            if stop is not None:
                read = read.masked_fill(done[:, None], stop)
                done = done | (read[:, 0] == stop)
            tokens = torch.cat((tokens, read), dim=1)
            mask = nn.functional.pad(mask, (0, 1), value=True)
            if stop is not None and bool(done.all()):
                break
        return tokens
