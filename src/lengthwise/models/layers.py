"""The parts of a pre-norm Transformer: norms, attention, feed-forward, and the stack of blocks.

Vaswani et al. 2017 (1706.03762); norms before each half as in GPT-2; RMSNorm (Zhang and Sennrich 2019), SwiGLU
(Shazeer 2020) and grouped-query attention (Ainslie et al. 2023) as in Llama. No biases, as in T5 and Llama.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lengthwise.attention.plan import Plan, plan
from lengthwise.attention.request import Request
from lengthwise.errors import InvalidArgument
from lengthwise.models.cache import KVCache
from lengthwise.models.config import ModelConfig
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare
from lengthwise.rotation import Rotation
from lengthwise.sites import cached_keys


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
        q, k, v = (self._heads(project(x)) for project in (self.q, self.k, self.v))
        if shared.rotation is not None and not shared.raw_keys:
            q, k = shared.rotation(q, k)
        if cache is not None:
            k, v = cache.append(layer, k, v)
        if shared.rotation is not None and shared.raw_keys:
            q, k = shared.rotation(q, k)
        out = shared.attend(q, k, v)  # [batch, heads, length, head_dim]
        return self.out(out.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
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
        encoding: one module that all layers share, a sequence with one for each layer, or None.
    """

    def __init__(self, config: ModelConfig, encoding: nn.Module | Sequence[nn.Module] | None) -> None:
        super().__init__()
        given = [] if encoding is None else [encoding] if isinstance(encoding, nn.Module) else list(encoding)
        if len(given) not in (0, 1, config.layers):
            raise InvalidArgument(
                f"{len(given)} encodings for {config.layers} layers: give one that all share, or one for each layer"
            )
        self.config = config
        self.encodings = nn.ModuleList(given)
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
        prepared = [prepare(one, positions, generator=generator, training=self.training) for one in encodings]
        embed = prepared[0].embed
        if embed is not None:  # positions join the token embeddings once, before the first layer
            x = embed(x)
        shared = [self._share(x, one, ready, cache) for one, ready in zip(encodings, prepared, strict=True)]
        for layer, block in enumerate(self.blocks):
            x = block(x, shared[layer % len(shared)], cache, layer)
        return self.norm(x)

    def _share(self, x: Tensor, encoding: nn.Module | None, ready: Prepared, cache: KVCache | None) -> Shared:
        config, positions = self.config, ready.positions
        rotation, raw_keys = ready.rotation, False
        if rotation is not None and encoding is not None and cache is not None:
            raw_keys = cached_keys(encoding) == "raw"
            if not raw_keys:  # only new keys are rotated, at their own positions, and join rotated ones
                rotation = prepare(encoding, positions.new()).rotation
        request = Request(
            batch=x.shape[0],
            heads=config.heads,
            kv_heads=config.kv_heads or config.heads,
            q_length=x.shape[1],
            k_length=positions.k_length,
            head_dim=config.head_dim,
            dtype=_computing_dtype(x),
            device=x.device,
            positions=positions,
            bias=ready.bias,
            logits=ready.logits,
            scale=config.head_dim**-0.5,
            dropout=config.dropout if self.training else 0.0,
        )
        return Shared(rotation, raw_keys, plan(request))


@dataclass(frozen=True, eq=False)
class Shared:
    """What the layers with one encoding share in a forward.

    Args:
        rotation: of queries and keys, or None.
        raw_keys: the cache holds keys that are not rotated yet.
        attend: the attention, planned.
    """

    rotation: Rotation | None
    raw_keys: bool
    attend: Plan


def make_norm(config: ModelConfig) -> nn.Module:
    """The norm that a config names."""
    if config.norm == "rms":
        return nn.RMSNorm(config.dim, eps=1e-6)
    return nn.LayerNorm(config.dim) if config.norm == "layer" else nn.Identity()


def reset_parameters(model: nn.Module, config: ModelConfig) -> None:
    """Draw all matrices of blocks and embeddings anew.

    Embeddings and matrices have a standard deviation of 1/sqrt(inputs), so that a stream of unit size stays one;
    what a block adds to the stream is shrunk by sqrt(2 layers), as in GPT-2.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.dim**-0.5)
    for module in model.modules():
        if isinstance(module, Block):
            for last in (module.attention.out, module.feed_forward.down):
                last.weight.data.mul_((2 * config.layers) ** -0.5)


def _computing_dtype(x: Tensor) -> torch.dtype:
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
