"""One attention layer with fixed matrices around an encoding: whatever it does reaches the output.

It keeps what the contract asks of a model: embeddings before the first projection, hidden states read with their
state, keys cached in the form that the encoding names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.attention import attention, backends
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare
from lengthwise.testing.subject import Subject


def quick_backends() -> list[str]:
    """Backends that answer at once; those that compile for many seconds have tests of their own."""
    return [name for name in backends if not getattr(backends[name], "compiles", False)]


class Probe:
    """A layer around one module.

    Args:
        subject: what is under test.
        encoding: the module, made by the subject.
        kv_heads: heads of keys and values; those of the first case where 0.
        dtype: of the matrices and inputs.
    """

    def __init__(
        self, subject: Subject, encoding: nn.Module, kv_heads: int = 0, dtype: torch.dtype = torch.float32
    ) -> None:
        self.subject, self.encoding, self.dtype = subject, encoding, dtype
        self.kv_heads = kv_heads or subject.heads_of_keys(subject.cases[0])
        dims, generator = subject.dims, torch.Generator().manual_seed(2)
        widths = (dims.heads * dims.head_dim, self.kv_heads * dims.head_dim, self.kv_heads * dims.head_dim)
        self.matrices = [torch.randn(dims.dim, width, generator=generator) / dims.dim**0.5 for width in widths]
        self.matrices = [matrix.to(dtype) for matrix in self.matrices]

    def inputs(self, batch: int, length: int) -> Tensor:
        """Embeddings `[batch, length, dim]`, the same at each call; a shorter input begins a longer one."""
        rows = [
            torch.randn(length, self.subject.dims.dim, generator=torch.Generator().manual_seed(3 + row))
            for row in range(batch)
        ]
        return (torch.stack(rows) if rows else torch.zeros(0, length, self.subject.dims.dim)).to(self.dtype)

    def project(self, hidden: Tensor) -> list[Tensor]:
        """q, k, v `[batch, heads, length, head_dim]`."""
        head_dim = self.subject.dims.head_dim
        return [(hidden @ w).unflatten(-1, (-1, head_dim)).transpose(1, 2) for w in self.matrices]

    def prepare(self, x: Tensor, positions: Positions, state: Any = None, **draws: Any) -> tuple[Prepared, Tensor, Any]:
        """What the encoding says at `positions`, hidden states `[batch, length, dim]`, and its next state."""
        prepared = prepare(self.encoding, positions, **draws)
        hidden = x if prepared.embed is None else prepared.embed(x)
        prepared, state = prepared.read(hidden, state)
        return prepared, hidden, state

    def prepare_step(self, x: Tensor, positions: Positions) -> tuple[Prepared, Tensor]:
        """What the encoding says of the last tokens of `x [batch, keys, dim]`, once it has read those before."""
        past, state = positions.k_length - positions.q_length, None
        if past:
            _, _, state = self.prepare(x[:, :past], self.subject.sequence(past))
        prepared, hidden, _ = self.prepare(x[:, past:], positions, state)
        return prepared, hidden

    def __call__(self, x: Tensor, positions: Positions, backend: str = "reference", **draws: Any) -> Tensor:
        """All tokens in one pass: `[batch, heads, length, head_dim]`."""
        prepared, hidden, _ = self.prepare(x, positions, **draws)
        q, k, v = self.project(hidden)
        return attention(q, k, v, prepared, backend=backend)

    def decode(self, x: Tensor, chunks: Sequence[int], aligned: bool = True) -> Tensor:
        """The same chunk by chunk, with a cache of keys in the form that the encoding names."""
        shape = (x.shape[0], self.kv_heads, 0, self.subject.dims.head_dim)
        keys = values = torch.zeros(shape, dtype=self.dtype)
        outs: list[Tensor] = []
        past, state = 0, None
        for count in chunks:
            whole = torch.arange(past + count)
            positions = self.subject.part(whole[past:], whole)
            if not aligned:
                positions = self.subject.rows(positions, x.shape[0])
            prepared, hidden, state = self.prepare(x[:, past : past + count], positions, state)
            q, k, v = self.project(hidden)
            if self.subject.cached_keys != "raw":
                if prepared.rotation_of_new is not None:
                    q, k = prepared.rotation_of_new()(q, k)
                prepared = replace(prepared, rotation=None)
            keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
            outs.append(attention(q, keys, values, prepared, backend="reference"))
            past += count
        return torch.cat(outs, 2)

    def logits(self, x: Tensor, positions: Positions) -> Tensor:
        """Logits `[batch, heads, q, k]` of tokens that attend to themselves, in float64 where the encoding allows."""
        prepared, hidden, _ = self.prepare(x, positions)
        q, k, _ = self.project(hidden)
        return logits(prepared, q, k)


def logits(prepared: Prepared, q: Tensor, k: Tensor) -> Tensor:
    """All logits of queries `[batch, heads, q, head_dim]` and keys, masked nowhere."""
    scale = q.shape[-1] ** -0.5
    if prepared.rotation is not None:
        q, k = prepared.rotation(q, k)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    if prepared.logits is not None:
        out = prepared.logits(q, k, prepared.positions, scale)
    else:
        out = q @ k.transpose(-1, -2) * scale
    return out if prepared.bias is None else out + prepared.bias.dense()


def visible(positions: Positions) -> Tensor:
    """Which pairs may attend, `[1 or batch, 1, q, k]`."""
    mask = positions.visible()
    if mask is None:
        return torch.ones(1, 1, positions.q_length, positions.k_length, dtype=torch.bool)
    return mask[None, None] if mask.dim() == 2 else mask[:, None]
