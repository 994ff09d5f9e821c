"""The frequencies of a rotary encoding, as a value that an extension maps to another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from lengthwise.errors import InvalidArgument


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Frequencies of the pairs that are rotated, and what else a rotation is made of.

    Args:
        inv_freq: float64 `[rotary_dim / 2]` on the CPU, radians a position; pair 0 is the fastest.
        base: that the frequencies were made with, `rope_theta` in many configs.
        rotary_dim: dims of a head that are rotated.
        attention_factor: what cosines and sines are multiplied by, so that each logit grows by its square.

    Example:
        >>> Spectrum.of_base(10000.0, 4).inv_freq.tolist()
        [1.0, 0.01]
    """

    inv_freq: Float64[Tensor, " pairs"]
    base: float
    rotary_dim: int
    attention_factor: float | Tensor = 1.0

    def __post_init__(self) -> None:
        if self.inv_freq.shape != (self.rotary_dim // 2,) or self.inv_freq.dtype != torch.float64:
            raise InvalidArgument(
                f"inv_freq must be float64 of the {self.rotary_dim // 2} pairs of rotary_dim {self.rotary_dim}, not "
                f"{self.inv_freq.dtype} {list(self.inv_freq.shape)}"
            )

    @classmethod
    def of_base(cls, base: float, rotary_dim: int) -> Spectrum:
        """The geometric frequencies of RoPE (2104.09864, section 3.3.2): `base^(-2m / rotary_dim)`."""
        exponent = torch.arange(0, rotary_dim, 2, dtype=torch.float64, device="cpu") / rotary_dim
        return cls(base**-exponent, base, rotary_dim)

    @property
    def wavelengths(self) -> Float64[Tensor, " pairs"]:
        """Positions that each pair takes for a full turn; infinite for one that stands still."""
        return 2 * torch.pi / self.inv_freq

    def replace(self, **changes: Any) -> Spectrum:
        """The same with some fields changed."""
        return replace(self, **changes)
