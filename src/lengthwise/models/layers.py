"""The parts of a pre-norm Transformer: norms, attention, feed-forward, and the stack of blocks.

Vaswani et al. 2017 (1706.03762); norms before each half as in GPT-2; RMSNorm (Zhang and Sennrich 2019), SwiGLU
(Shazeer 2020) and grouped-query attention (Ainslie et al. 2023) as in Llama. No biases, as in T5 and Llama.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lengthwise.attention.plan import Plan, plan
from lengthwise.attention.request import Request
from lengthwise.compose import PerLayer
from lengthwise.errors import InvalidArgument
from lengthwise.models.cache import KVCache
from lengthwise.models.config import ModelConfig
from lengthwise.positions import Positions
from lengthwise.precision import autocasts
from lengthwise.prepared import Prepared, prepare
from lengthwise.query_key import QueryKeyMap
from lengthwise.sites import SITES, cached_keys, follows_length


class SelfAttention(nn.Module):
    """Multi-head attention with query heads that may share keys and values."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        kv_dim = (config.kv_heads or config.heads) * config.head_dim
        self.head_dim = config.head_dim
        self.q = nn.Linear(config.dim, config.dim, bias=False)
        self.k = nn.Linear(config.dim, kv_dim, bias=False)
        self.v = nn.Linear(config.dim, kv_dim, bias=False)
        self.out = nn.Linear(config.dim, config.dim, bias=False)

    def forward(
        self, x: Float[Tensor, "batch length dim"], shared: Shared, cache: KVCache | None, layer: int
    ) -> Float[Tensor, "batch length dim"]:
        """Attend; new keys and values join the cache, if there is one."""
        if shared.ready.readers:
            shared = shared.read(x, cache, layer)
        q, k, v = (self.heads(project(x)) for project in (self.q, self.k, self.v))
        if shared.rotation is not None and not shared.raw_keys:
            q, k = shared.rotation(q, k)
        if cache is not None:
            k, v = cache.append(layer, k, v)
        if shared.rotation is not None and shared.raw_keys:
            q, k = shared.rotation(q, k)
        attend = plan(shared.request) if shared.attend is None else shared.attend
        out = attend(q, k, v)  # [batch, heads, length, head_dim]
        return self.out(out.transpose(1, 2).flatten(2))

    def heads(self, x: Tensor) -> Tensor:
        """Part the last dimension into heads: `[batch, heads, length, head_dim]`."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [batch, heads, length, head_dim]


class FeedForward(nn.Module):
    """Two linear layers with GELU or ReLU between, or the gated SwiGLU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden = config.hidden or 4 * config.dim
        self.activation = config.activation
        self.gate = nn.Linear(config.dim, hidden, bias=False) if config.activation == "swiglu" else None
        self.up = nn.Linear(config.dim, hidden, bias=False)
        self.down = nn.Linear(hidden, config.dim, bias=False)

    def forward(self, x: Float[Tensor, "batch length dim"]) -> Float[Tensor, "batch length dim"]:
        """Apply to each token by itself."""
        if self.gate is not None:
            return self.down(functional.silu(self.gate(x)) * self.up(x))
        up = self.up(x)
        return self.down(functional.relu(up) if self.activation == "relu" else functional.gelu(up))


class Block(nn.Module):
    """Attention, then feed-forward, each behind a norm and added to the stream."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = make_norm(config), SelfAttention(config)
        self.feed_forward_norm, self.feed_forward = make_norm(config), FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "batch length dim"], shared: Shared, cache: KVCache | None, layer: int
    ) -> Float[Tensor, "batch length dim"]:
        """One layer."""
        x = x + self.dropout(self.attention(self.attention_norm(x), shared, cache, layer))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Stack(nn.Module):
    """All blocks with their encoding, and the norm at the end.

    Args:
        config: sizes.
        encoding: one module that all layers share, a sequence with one for each layer (one module may stand in it
            several times), or None.

    Raises:
        InvalidArgument: more or fewer encodings than layers, or one of embeddings behind the first layer.
    """

    def __init__(self, config: ModelConfig, encoding: nn.Module | Sequence[nn.Module] | None) -> None:
        super().__init__()
        given: list[nn.Module]
        if isinstance(encoding, nn.Module) and not isinstance(encoding, nn.ModuleList | PerLayer):
            given = [encoding] * config.layers
        else:
            given = list(encoding or ())
        if len(given) not in (0, config.layers):
            raise InvalidArgument(
                f"{len(given)} encodings for {config.layers} layers: give one for each layer, or one that all share "
                "without a list"
            )
        for one in given:
            if hasattr(one, SITES["embeddings"]) and one is not given[0]:
                raise InvalidArgument(
                    f"{type(one).__name__} acts on token embeddings, which only the first layer reads: put it first "
                    "in the list, and NoPE or another kind behind it"
                )
        self.config = config
        self.follows_length = any(map(follows_length, given))
        self.encodings = nn.ModuleList(dict.fromkeys(given))  # each once, in the order of the layers
        self.encoding_of_layer = [list(self.encodings).index(one) for one in given] or [0] * config.layers
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = make_norm(config)

    def forward(
        self,
        x: Float[Tensor, "batch length dim"],
        positions: Positions,
        cache: KVCache | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "batch length dim"]:
        """Run all layers; what depends on positions alone is computed once for all that share an encoding."""
        encodings = list(self.encodings) or [None]
        prepared = [self._prepare(one, positions, x.shape[0], generator) for one in encodings]
        embed = prepared[0].embed
        if embed is not None:  # positions join the token embeddings once, before the first layer
            x = embed(x)
        shared = [self._share(x, one, ready, cache) for one, ready in zip(encodings, prepared, strict=True)]
        for layer, block in enumerate(self.blocks):
            x = block(x, shared[self.encoding_of_layer[layer]], cache, layer)
        return self.norm(x)

    def _prepare(
        self, encoding: nn.Module | None, positions: Positions, batch: int, generator: torch.Generator | None
    ) -> Prepared:
        if positions.target_length is None and positions.q_length != positions.k_length and self.follows_length:
            raise InvalidArgument(
                f"{type(encoding).__name__} follows the length of the sequence, and what is in the cache was made for "
                "another: positions.with_target(length) fixes it, from the first call on"
            )
        if encoding is not None and positions.q_length != positions.k_length and cached_keys(encoding) == "none":
            raise InvalidArgument(
                f"{type(encoding).__name__} can't decode with a cache: new tokens change what earlier ones were given; "
                "give it all tokens at each step, without a cache"
            )
        if self.training and getattr(encoding, "draws_each_row", False):
            positions = positions.for_rows(batch)
        return prepare(encoding, positions, generator=generator, training=self.training)

    def _share(self, x: Tensor, encoding: nn.Module | None, ready: Prepared, cache: KVCache | None) -> Shared:
        config, positions = self.config, ready.positions
        rotation, raw_keys = ready.rotation, False
        if cache is not None and encoding is not None and rotation is not None:
            raw_keys = cached_keys(encoding) == "raw"
            if not raw_keys and ready.rotation_of_new is not None:  # new keys are rotated, and join rotated ones
                rotation = ready.rotation_of_new()
        request = Request(
            batch=x.shape[0],
            heads=config.heads,
            kv_heads=config.kv_heads or config.heads,
            q_length=x.shape[1],
            k_length=x.shape[1] + (0 if cache is None else cache.length),
            head_dim=config.head_dim,
            dtype=_computing_dtype(x),
            device=x.device,
            positions=positions,
            bias=ready.bias,
            logits=ready.logits,
            scale=config.head_dim**-0.5,
            dropout=config.dropout if self.training else 0.0,
            normalizes=ready.normalizes,
        )
        return Shared(ready, request, rotation, raw_keys, None if ready.readers else plan(request))


@dataclass(frozen=True, eq=False)
class Shared:
    """What the layers with one encoding share in a forward.

    Args:
        ready: what the encoding says at the positions.
        request: what attention is asked to do.
        rotation: of queries and keys, or None.
        raw_keys: the cache holds keys that are not rotated yet.
        attend: the attention, planned; None where each layer reads its own hidden states first.
    """

    ready: Prepared
    request: Request
    rotation: QueryKeyMap | None
    raw_keys: bool
    attend: Plan | None

    def read(self, hidden: Tensor, cache: KVCache | None, layer: int) -> Shared:
        """What one layer's hidden states add; the cache keeps the state of its encoding."""
        ready, state = self.ready.read(hidden, None if cache is None else cache.states[layer])
        if cache is not None:
            cache.states[layer] = state
        request = replace(self.request, bias=ready.bias, logits=ready.logits)
        read_rotation = ready.rotation is not self.ready.rotation
        rotation = ready.rotation if read_rotation else self.rotation
        return Shared(ready, request, rotation, self.raw_keys and not read_rotation, plan(request))


def make_norm(config: ModelConfig) -> nn.Module:
    """The norm that a config names."""
    if config.norm == "rms":
        return nn.RMSNorm(config.dim, eps=1e-6)
    return nn.LayerNorm(config.dim, bias=False) if config.norm == "layer" else nn.Identity()


def reset_parameters(embedding: nn.Embedding, head: nn.Linear, stack: Stack) -> None:
    """Draw the embedding, the head and all matrices of the blocks anew; an encoding keeps its own values.

    Embeddings and matrices have a standard deviation of 1/sqrt(inputs), so that a stream of unit size stays one;
    what a block adds to the stream is shrunk by sqrt(2 layers), as in GPT-2.
    """
    nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)
    for module in (head, *stack.blocks.modules()):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
    for block in stack.blocks.modules():
        if isinstance(block, Block):
            for last in (block.attention.out, block.feed_forward.down):
                last.weight.data.mul_((2 * len(stack.blocks)) ** -0.5)


def _computing_dtype(x: Tensor) -> torch.dtype:
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if autocasts(kind) else x.dtype
