"""Sines and cosines of positions at geometrically spaced frequencies (Vaswani et al. 2017, section 3.5).

Three variants are published, and they are not the same numbers: see `lengthwise.encodings.sinusoidal`.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.precision import widest_float

Variant = Literal["interleaved", "half", "tensor2tensor"]
VARIANTS = ("interleaved", "half", "tensor2tensor")


def check_sinusoids(dim: int, base: float, variant: str) -> None:
    """Raise `InvalidArgument` for settings that `sinusoids` has no numbers for."""
    if dim < 2 or dim % 2:
        raise InvalidArgument(f"sinusoids need an even dim, for a sine and a cosine each, not {dim}")
    if not base > 0:
        raise InvalidArgument(f"base must be above 0, not {base}")
    if variant not in VARIANTS:
        raise InvalidArgument(f"unknown variant {variant!r}: {nearest(variant, VARIANTS)}")


def sinusoids(
    place: Tensor, dim: int, base: float = 10000.0, variant: Variant = "interleaved"
) -> Float[Tensor, "*place dim"]:
    """Sinusoids of positions of any shape, float32 from float64 angles, a last dimension of `dim` added."""
    return sinusoids_of(place, frequencies(dim, base, variant, place.device), variant)


def frequencies(dim: int, base: float, variant: Variant, device: torch.device | str = "cpu") -> Float[Tensor, " half"]:
    """Radians a position, the fastest first, float64 where the device has it."""
    m = torch.arange(dim // 2, device=device, dtype=widest_float(torch.device(device)))
    return base ** (-m / (max(dim // 2 - 1, 1) if variant == "tensor2tensor" else dim / 2))


def sinusoids_of(place: Tensor, inv_freq: Tensor, variant: Variant) -> Float[Tensor, "*place dim"]:
    """Sinusoids of positions of any shape by given frequencies, float32."""
    wide = widest_float(place.device)
    angle = place.to(wide).unsqueeze(-1) * inv_freq.to(place.device, wide)  # [*place, dim / 2]
    if variant == "interleaved":
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2).float()
    return torch.cat((angle.sin(), angle.cos()), dim=-1).float()
