"""Only the fastest pairs turn (`proportional` in `transformers`; p-RoPE, Barbero et al. 2024, 2410.06205, appendix D).

    theta_m -> theta_m / s   for m < n = int(fraction * head_dim // 2),   0 for the others

Frequencies stay those of the whole head, base^(-2m / head_dim), and pairs stay where they are: not the partial
rotation of `Rotary(fraction=...)`, whose exponents count the rotated dims alone and whose rotated dims stand first. So
it extends encodings that rotate whole heads only. With factor 1 it is p-RoPE: `fraction` 0 is no rotation, 1 all of it,
and the paper found 0.75 best of what it tried (as reported by others; the original was not read).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.extension.settings import check_factor
from lengthwise.spectrum import Spectrum


@extensions.register("proportional")
@dataclass(frozen=True)
class Proportional(Method):
    """The slowest pairs of a head stand still, the others are divided by a factor.

    Args:
        fraction: part of the pairs that turn, the fastest, from 0 to 1.
        factor: what their frequencies are divided by, at least 1.

    Raises:
        InvalidArgument: a fraction outside 0 to 1, or a factor below 1; when it extends, an encoding that rotates part
            of a head.

    Example:
        >>> import lengthwise as lw
        >>> lw.extend(lw.Rotary(head_dim=8), lw.Proportional(fraction=0.5)).spectrum.inv_freq.tolist()
        [1.0, 0.1, 0.0, 0.0]
    """

    fraction: float
    factor: float = 1.0

    formula: ClassVar[str] = "θ_m -> θ_m / s for m < p d / 2, 0 for the others"
    paper: ClassVar[str] = "Barbero et al. 2024, arXiv 2410.06205; with a factor in transformers 5.24"
    example: ClassVar[str] = "proportional(fraction=0.5)"

    def __post_init__(self) -> None:
        check_factor(self.factor)
        if not 0 <= self.fraction <= 1:
            raise InvalidArgument(f"fraction is the part of the pairs that turn, from 0 to 1, not {self.fraction}")

    @property
    def identity(self) -> bool:
        """All pairs, by factor 1."""
        return self.fraction == 1 and self.factor == 1

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """Its pairs are counted over the whole head."""
        inner = getattr(encoding, "unextended", encoding)
        if getattr(inner, "fraction", 1) != 1:
            return "it counts the pairs of a whole head, and this encoding rotates a part: give it fraction=1"
        return None

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """The first frequencies divided by the factor, zeros behind them."""
        turning = int(self.fraction * spectrum.rotary_dim // 2)
        still = torch.zeros_like(spectrum.inv_freq[turning:])
        return spectrum.replace(inv_freq=torch.cat((spectrum.inv_freq[:turning] / self.factor, still)))
