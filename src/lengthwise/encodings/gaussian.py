"""A Gaussian of distance: attention fades as a bell of one width a head.

    logit(i, j) += -(i - j)^2 / (2 width_h^2)

After softmax it multiplies each weight by a Gaussian of distance. The family is UNVERIFIED: Sperber et al. 2018 and Guo
et al. 2019 are said to use it with one width a head; Yang et al. 2018 (1810.10182, id UNVERIFIED) predict its centre
and width from the query, which this does not do. The widths' first values are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import DistanceBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


@encodings.register("gaussian")
class Gaussian(nn.Module):
    """A penalty that grows with the square of distance, at one width for each head.

    Args:
        heads: number of query heads.
        width: the distance at which the bias is -1/2: one number, or one for each head.
        learned: whether training changes the widths; their logarithms are trained, so that they stay positive.

    Example:
        >>> import lengthwise as lw
        >>> lw.Gaussian(heads=1, width=2.0).logit_bias(lw.Positions.step(3)).dense()
        tensor([[[-1.1250, -0.5000, -0.1250, -0.0000]]])
    """

    formula: ClassVar[str] = "logit(i, j) += -(i - j)² / (2 width_h²)"
    paper: ClassVar[str] = (
        "a family, UNVERIFIED: Sperber et al. 2018; Guo et al. 2019; Yang et al. 2018, arXiv 1810.10182"
    )
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonincreasing", "nonpositive", "pairwise"})

    def __init__(self, heads: int, width: float | Sequence[float] = 16.0, learned: bool = False) -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"Gaussian needs at least 1 head, not {heads}")
        first = [float(one) for one in width] if isinstance(width, Sequence) else [float(width)] * heads
        if len(first) != heads:
            raise InvalidArgument(f"width must be one number or {heads}, one for each head, not {len(first)}")
        if not all(0 < one < float("inf") for one in first):
            raise InvalidArgument(f"widths must be above 0 and finite, not {width}")
        self.heads, self.learned = heads, learned
        self._first = first
        self.log_width = nn.Parameter(torch.empty(heads)) if learned else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set learned widths to the first ones."""
        if self.log_width is not None:
            with torch.no_grad():
                self.log_width.copy_(torch.tensor([math.log(one) for one in self._first]))

    @property
    def widths(self) -> list[float]:
        """The width of each head; learned ones as they are now."""
        return self._first if self.log_width is None else [math.exp(value) for value in self.log_width.tolist()]

    def logit_bias(self, positions: Positions) -> DistanceBias:
        """The bias at `positions`; differentiable in learned widths."""
        return DistanceBias(self.of_distance, positions)

    def of_distance(self, distance: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at distances of any shape."""
        if self.log_width is None:
            width = torch.tensor(self._first, device=distance.device, dtype=torch.float32)
        else:
            width = self.log_width.to(torch.promote_types(self.log_width.dtype, torch.float32)).exp()
        return -0.5 * (distance.to(width.dtype) / width.view(-1, *[1] * distance.dim())) ** 2

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        widths = ", ".join(f"{one:g}" for one in self._first)
        return f"heads={self.heads}, width=[{widths}], learned={self.learned}"
