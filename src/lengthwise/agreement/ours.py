"""What this package makes of a place: the same few quantities for every comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.agreement.place import Place, centred
from lengthwise.build import build
from lengthwise.dims import Dims
from lengthwise.positions import Positions
from lengthwise.prepared import prepare

DIMS = Dims(dim=64, heads=4, head_dim=64, layers=1, max_length=128)
"""Sizes of all comparisons, where a spec says no others."""
Where = Callable[[Place], Positions]


def encoding(spec: str) -> Any:
    """The encoding of a spec, drawn with a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(spec, DIMS)


def rotated(spec: str, where: Where | None = None, head_dim: int = 64) -> Callable[[Place], Tensor]:
    """Rotated queries and keys, `[2, 1, heads, length, head_dim]`."""

    def made(place: Place) -> Tensor:
        positions = place.positions if where is None else where(place)
        rotation = prepare(encoding(spec), positions).rotation
        assert rotation is not None
        return torch.stack(rotation(*place.queries_and_keys(head_dim=head_dim, length=positions.q_length)))

    return made


def bias(module: nn.Module, positions: Positions) -> Tensor:
    """The dense bias of a module, `[heads, q, k]`."""
    found = prepare(module, positions).bias
    assert found is not None
    values = found.dense()
    return values[0] if values.dim() == 4 else values


def centred_bias(spec: str) -> Callable[[Place], Tensor]:
    """The bias of a spec at a place as a softmax sees it."""
    return lambda place: centred(bias(encoding(spec), place.positions))


def added(spec: str, dim: int = 64, where: Where | None = None) -> Callable[[Place], Tensor]:
    """Token embeddings with what an encoding adds, `[1, length, dim]`."""

    def made(place: Place) -> Tensor:
        positions = place.positions if where is None else where(place)
        embed = prepare(encoding(spec), positions).embed
        assert embed is not None
        return embed(embeddings(place, dim, positions.q_length))

    return made


def embeddings(place: Place, dim: int = 64, length: int | None = None) -> Tensor:
    """Token embeddings, `[1, length, dim]`."""
    return place.draw(1, length or place.length, dim, seed=3)
