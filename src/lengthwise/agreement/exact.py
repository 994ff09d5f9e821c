"""The papers' formulas in float64, written down once more: no code is shared with the encodings."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lengthwise.agreement.place import Place, centred


def turn(x: Tensor, angles: Tensor, interleaved: bool, factor: Tensor | None = None) -> Tensor:
    """Turn pair m of `x [..., length, head_dim]` by `angles [length, pairs]`; later dims pass through."""
    pairs = angles.shape[-1]
    part, rest = x.double()[..., : 2 * pairs], x.double()[..., 2 * pairs :]
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else (part[..., :pairs], part[..., pairs:])
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    if factor is not None:
        turned = turned * factor
    out = torch.stack((turned.real, turned.imag), -1).flatten(-2)
    return torch.cat((out if interleaved else torch.cat((turned.real, turned.imag), -1), rest), -1)


def rotary(
    base: float = 10000.0, dim: int = 64, interleaved: bool = False, head_dim: int = 64
) -> Callable[[Place], Tensor]:
    """RoPE, Su et al. 2021, eq. 15, of the first `dim` dims."""

    def made(place: Place) -> Tensor:
        angles = place.index.double()[:, None] * base ** (-torch.arange(0, dim, 2).double() / dim)
        return torch.stack([turn(x, angles, interleaved) for x in place.queries_and_keys(head_dim=head_dim)])

    return made


def xpos_logits(place: Place, base: float = 10000.0, scale_base: float = 512.0, gamma: float = 0.4) -> Tensor:
    """q·k after xPos, Sun et al. 2022, for keys not ahead."""
    q, k = place.queries_and_keys()
    m = torch.arange(0, 64, 2).double() / 64
    angles = place.index.double()[:, None] * base**-m
    power = torch.arange(place.length).double()[:, None] / scale_base  # the centre drops out of q·k
    zeta = ((m + gamma) / (1 + gamma)) ** power
    return (turn(q, angles, True, zeta) @ turn(k, angles, True, 1 / zeta).transpose(-1, -2)).tril() / 8


def slopes(heads: int) -> Tensor:
    """ALiBi's slopes, Press et al. 2021: a geometric sequence, and every other one of the next for odd counts."""
    power = 1 << (heads.bit_length() - 1)
    own = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    between = [2.0 ** (-4.0 * (2 * h + 1) / power) for h in range(heads - power)]
    return torch.tensor(own + between, dtype=torch.float64)


def alibi(heads: int) -> Callable[[Place], Tensor]:
    """ALiBi's bias for keys not ahead."""

    def made(place: Place) -> Tensor:
        index = place.index.double()
        return centred(slopes(heads)[:, None, None] * (index[None, :] - index[:, None]))

    return made


def t5_bucket(distance: Tensor, buckets: int = 32, max_distance: int = 128) -> Tensor:
    """T5's bucket of keys behind, Raffel et al. 2020."""
    exact = buckets // 2
    far = [
        exact + int(math.log(d / exact) / math.log(max_distance / exact) * (buckets - exact) + 1e-12) if d else 0
        for d in distance.flatten().tolist()
    ]
    wide = torch.tensor(far).view(distance.shape).clamp(max=buckets - 1)
    return torch.where(distance < exact, distance.clamp(min=0), wide)


def sinusoids(place: Place, dim: int = 64, last: int = 0) -> tuple[Tensor, Tensor]:
    """Sines and cosines, Vaswani et al. 2017; `last=1` reaches the longest wavelength exactly (tensor2tensor)."""
    half = dim // 2
    angle = place.index.double()[:, None] * 10000.0 ** (-torch.arange(half).double() / (half - last))
    return angle.sin(), angle.cos()
