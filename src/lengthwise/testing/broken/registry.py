"""What a wrong encoding is: a small module with one fault, and the check that must find it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lengthwise.attention import Backend
from lengthwise.dims import Dims

DIMS = Dims(dim=32, heads=4, head_dim=8)
"""Sizes that all of them are made for."""


@dataclass(frozen=True)
class Wrong:
    """A wrong encoding.

    Args:
        made: its class, called without arguments.
        fault: what is wrong with it, and whose fault it was.
        caught_by: the check that must fail.
        also: checks that fail with it, since the fault shows there too; `"*"` where no attention runs at all.
        backend: a wrong attention backend to be registered meanwhile, where the fault is none of the encoding.
    """

    made: type[nn.Module]
    fault: str
    caught_by: str
    also: frozenset[str]
    backend: Backend | None = None


BROKEN: list[Wrong] = []
"""All of them."""


def broken(
    fault: str, caught_by: str, *also: str, backend: Backend | None = None
) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Return a decorator that enters a class."""

    def enter(made: type[nn.Module]) -> type[nn.Module]:
        BROKEN.append(Wrong(made, fault, caught_by, frozenset(also), backend))
        return made

    return enter


def frequencies(dtype: torch.dtype = torch.float64, base: float = 10000.0, dims: int = DIMS.head_dim) -> Tensor:
    """Angle for each position of `dims / 2` pairs."""
    return base ** (-torch.arange(0, dims, 2, dtype=dtype) / dims)


def angles(place: Tensor, base: float = 10000.0, dims: int = DIMS.head_dim) -> Tensor:
    """Right angles of positions of any shape."""
    return place.double().unsqueeze(-1) * frequencies(base=base, dims=dims)


def sinusoids(place: Tensor) -> Tensor:
    """Right sinusoids of positions, float32 `[*place, dim]`."""
    turned = angles(place, dims=DIMS.dim)
    return torch.cat((turned.sin(), turned.cos()), dim=-1).float()


def slopes(heads: int = DIMS.heads) -> Tensor:
    """Slopes of ALiBi for a power of two of heads."""
    return torch.tensor([2.0 ** (-8 * (head + 1) / heads) for head in range(heads)])


def penalty(distance: Tensor) -> Tensor:
    """A right bias that falls with distance: `[heads, *distance]`."""
    return -slopes().view(-1, *[1] * distance.dim()) * distance.abs().float()


def wave(distance: Tensor) -> Tensor:
    """A right bias that rises and falls with distance: `[heads, *distance]`."""
    return (distance.double() * math.pi / 5).sin().float().expand(DIMS.heads, *distance.shape)
