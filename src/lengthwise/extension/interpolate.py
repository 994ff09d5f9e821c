"""Position interpolation: a longer sequence is pressed into the trained range (Chen et al. 2023, 2306.15595, eq. 4).

    p -> p / s,   s = target length / trained length

For a rotation this is every frequency divided by s (`linear` in `transformers`), for a bias of distance every distance
divided by s: ALiBi's slopes times 1/s (Al-Khateeb et al. 2023, 2310.13017), T5's buckets s times as wide. Nothing is
seen that was not seen in training, at the price of near tokens that stand closer than they ever did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.extension.settings import check_factor
from lengthwise.positions import Positions
from lengthwise.spectrum import Spectrum


@extensions.register("interpolate")
@dataclass(frozen=True)
class Interpolate(Method):
    """All positions divided by a factor.

    Args:
        factor: target length over trained length, at least 1; 1 changes nothing.

    Raises:
        InvalidArgument: a factor below 1.

    Example:
        >>> import lengthwise as lw
        >>> alibi = lw.extend(lw.ALiBi(heads=1, max_bias=1), lw.Interpolate(factor=4))
        >>> alibi.logit_bias(lw.Positions.step(4)).dense().tolist()
        [[[-0.5, -0.375, -0.25, -0.125, -0.0]]]
    """

    factor: float

    formula: ClassVar[str] = "p -> p / s"
    paper: ClassVar[str] = "Chen et al. 2023, arXiv 2306.15595, eq. 4"
    example: ClassVar[str] = "interpolate(factor=4)"
    plain_factor: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_factor(self.factor)

    @property
    def identity(self) -> bool:
        """Factor 1."""
        return self.factor == 1

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """A table has no rows between its rows."""
        if getattr(encoding, "max_position", None) is not None:
            return "it makes fractions of positions, and a table has whole rows only: resample the table instead"
        return None

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Every frequency divided by the factor."""
        return spectrum.replace(inv_freq=spectrum.inv_freq / self.factor)

    def map_distance(self, distance: Tensor, target_length: int | Tensor | None = None) -> Tensor:
        """Every distance divided by the factor, float32 or wider."""
        return _wide(distance) / self.factor

    def map_positions(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Positions:
        """Every position divided by the factor, float64."""
        q = positions.q.double() / self.factor
        return positions.replace(q=q, k=q if positions.k is positions.q else positions.k.double() / self.factor)


def _wide(distance: Tensor) -> Tensor:
    return distance if distance.is_floating_point() else distance.float()
