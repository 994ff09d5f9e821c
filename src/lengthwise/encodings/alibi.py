"""Attention with linear biases (Press et al. 2021, 2108.12409, section 3).

    logit(i, j) += -m_h |i - j|,   m_h = 2^(-8h/heads), h = 1 ... heads, for a power of two

For other head counts the published code takes the slopes of the next lower power of two P, then every other slope of
2P; the list is not sorted. The published code adds m_h j instead, which differs by a constant for each row
and is the same after softmax. The form here is symmetric: in bidirectional attention it never rewards distance.

Learned slopes begin as the published ones and stay positive: what is trained is their logarithm. A published port that
clamps learned slopes to at least 0.01 changes the last two of 8 heads before the first step; nothing is clamped here.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import DistanceBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.slopes import alibi_slopes


@encodings.register("alibi")
class ALiBi(nn.Module):
    """A penalty that grows in proportion to distance, at one slope for each head.

    Args:
        heads: number of query heads.
        max_bias: the exponent 8 above (`alibi_bias_max` in MPT): the last slope is 2^-max_bias.
        learned: whether training changes the slopes.

    Example:
        >>> import lengthwise as lw
        >>> lw.ALiBi(heads=8).logit_bias(lw.Positions.sequence(3)).dense()[0].tril()
        tensor([[-0.0000,  0.0000,  0.0000],
                [-0.5000, -0.0000,  0.0000],
                [-1.0000, -0.5000, -0.0000]])
    """

    formula: ClassVar[str] = "logit(i, j) += -m_h |i - j|,  m_h = 2^(-8h/heads)"
    paper: ClassVar[str] = "Press et al. 2021, arXiv 2108.12409, section 3"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonincreasing", "nonpositive", "pairwise"})

    def __init__(self, heads: int, max_bias: float = 8.0, learned: bool = False) -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"ALiBi needs at least 1 head, not {heads}")
        if not max_bias > 0:
            raise InvalidArgument(f"max_bias must be above 0, not {max_bias}")
        self.heads, self.max_bias, self.learned = heads, float(max_bias), learned
        self.log_slopes = nn.Parameter(torch.empty(heads)) if learned else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set learned slopes to the published ones."""
        if self.log_slopes is not None:
            with torch.no_grad():
                self.log_slopes.copy_(torch.tensor([math.log(m) for m in alibi_slopes(self.heads, self.max_bias)]))

    @property
    def slopes(self) -> list[float]:
        """The slope of each head, in the published order; learned ones as they are now."""
        if self.log_slopes is not None:
            return [math.exp(value) for value in self.log_slopes.tolist()]
        return alibi_slopes(self.heads, self.max_bias)

    def logit_bias(self, positions: Positions) -> DistanceBias:
        """The bias at `positions`, in float32; differentiable in learned slopes."""
        return DistanceBias(self.of_distance, positions)

    def of_distance(self, distance: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at distances of any shape."""
        if self.log_slopes is None:
            slopes = torch.tensor(self.slopes, device=distance.device, dtype=torch.float32)
        else:
            slopes = self.log_slopes.to(torch.promote_types(self.log_slopes.dtype, torch.float32)).exp()
        far = -distance.abs().to(slopes.dtype)  # whole numbers are exact up to 2^24
        return slopes.view(-1, *[1] * distance.dim()) * far

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}, max_bias={self.max_bias:g}" + ", learned=True" * self.learned
