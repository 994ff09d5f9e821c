"""Frequencies of extended rotary encodings in float64, written down once more: no code is shared with the methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lengthwise.agreement.exact import turn
from lengthwise.agreement.place import Place

BASE, DIM = 10000.0, 64
At = Callable[[Place], Tensor]


def rotated(
    frequencies: Tensor | At, interleaved: bool = False, multiplier: float = 1.0, head_dim: int = DIM
) -> Callable[[Place], Tensor]:
    """Queries and keys turned by frequencies, or by those of a place, and multiplied by a number."""

    def made(place: Place) -> Tensor:
        found = frequencies if isinstance(frequencies, Tensor) else frequencies(place)
        angles = place.index.double()[:, None] * found
        return multiplier * torch.stack(
            [turn(x, angles, interleaved) for x in place.queries_and_keys(head_dim=head_dim)]
        )

    return made


def powers(base: float = BASE, dim: int = DIM) -> Tensor:
    """RoPE's, Su et al. 2021: base^(-2m / dim)."""
    return base ** (-torch.arange(0, dim, 2).double() / dim)


def ntk(factor: float, base: float = BASE, dim: int = DIM) -> Tensor:
    """Another base: b s^(d / (d - 2)), YaRN's section 3.1."""
    return powers(base * factor ** (dim / (dim - 2)), dim)


def dynamic_ntk(factor: float, original: int, length: int) -> Tensor:
    """NTK's at s = f l / L - (f - 1), for a length l past the trained one."""
    return ntk(factor * max(length, original) / original - (factor - 1))


def by_turns(factor: float, original: int, slow: float, fast: float, base: float = BASE) -> Tensor:
    """A line in the number of turns: Peng et al. 2023, section 3.2, and Llama 3.1."""
    theta = powers(base)
    kept = ((original * theta / (2 * math.pi) - slow) / (fast - slow)).clamp(0, 1)
    return kept * theta + (1 - kept) * theta / factor


def by_index(factor: float, original: int, truncate: bool = True) -> Tensor:
    """A line in the index of the pair: the code of YaRN's authors."""
    fast, slow = (float(DIM) * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(BASE)) for turns in (32, 1))
    if truncate:
        fast, slow = float(math.floor(fast)), float(math.ceil(slow))
    divided = ((torch.arange(DIM // 2).double() - fast) / (slow - fast)).clamp(0, 1)
    return powers() * (1 - divided) + powers() / factor * divided


def yarn_multiplier(factor: float, weight: float = 1.0) -> float:
    """What YaRN multiplies cosines and sines by; DeepSeek gives the logarithm a weight."""
    return 0.1 * weight * math.log(factor) + 1


def longrope(divisors: Sequence[float]) -> Tensor:
    """A divisor for each pair, Ding et al. 2024."""
    return powers(dim=2 * len(divisors)) / torch.tensor(divisors, dtype=torch.float64)


def proportional(fraction: float, factor: float) -> Tensor:
    """RoPE's for the fastest pairs, divided by a factor, and 0 for the others."""
    turning = torch.arange(DIM // 2) < int(fraction * DIM) // 2
    return powers() / factor * turning


def interpolated_xpos_logits(factor: float, scale_base: float = 512.0, gamma: float = 0.4) -> Callable[[Place], Tensor]:
    """q·k after xPos with p / s for every p, for keys not ahead: in angles and in the decay."""

    def made(place: Place) -> Tensor:
        q, k = place.queries_and_keys()
        p = torch.arange(place.length).double()[:, None] / factor  # the start drops out of q·k
        zeta = ((torch.arange(0, DIM, 2).double() / DIM + gamma) / (1 + gamma)) ** (p / scale_base)
        angles = p * powers()
        return (turn(q, angles, True, zeta) @ turn(k, angles, True, 1 / zeta).transpose(-1, -2)).tril() / 8

    return made
