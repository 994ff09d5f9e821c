"""Sandwich: what sinusoidal positions say of distance alone (Chi et al. 2022, 2212.10356).

    logit(i, j) += (sum over k of cos((i - j) / 10000^(2k/d)) - d/2) / (8h/H),   k = 0 ... d/2 - 1,  h = 1 ... H

The sum is the inner product of two sinusoidal positions of width d; d/2 less makes it 0 at distance 0, which the
paper's construction does not do and softmax does not notice. Nothing is learned. It falls about as the logarithm of
distance does, but not at every step: it rises from 11 to 12. One public variant counts k from 1 (`first=1`). The
paper's own d and first k are UNVERIFIED.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import DistanceBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import can_be_read, widest_float


@encodings.register("sandwich")
class Sandwich(nn.Module):
    """A sum of cosines of distance, divided by a number of each head.

    Args:
        heads: number of query heads; the first decays fastest.
        sandwich_dim: d above, even.
        first: the first k; there are d/2 of them whatever the first.

    Example:
        >>> import lengthwise as lw
        >>> lw.Sandwich(heads=8).logit_bias(lw.Positions.step(3)).dense()[0]
        tensor([[-11.8138,  -6.6181,  -1.9063,   0.0000]])
    """

    formula: ClassVar[str] = "logit(i, j) += (Σ_k cos((i - j) / 10000^(2k/d)) - d/2) / (8h/heads)"
    paper: ClassVar[str] = "Chi et al. 2022, arXiv 2212.10356"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonpositive", "pairwise"})

    def __init__(self, heads: int, sandwich_dim: int = 128, first: int = 0) -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"Sandwich needs at least 1 head, not {heads}")
        if sandwich_dim < 2 or sandwich_dim % 2:
            raise InvalidArgument(f"sandwich_dim must be even and at least 2, not {sandwich_dim}")
        if first < 0:
            raise InvalidArgument(f"first must be at least 0, not {first}")
        self.heads, self.sandwich_dim, self.first = heads, sandwich_dim, first

    def logit_bias(self, positions: Positions) -> DistanceBias:
        """The bias at `positions`, in float32."""
        return DistanceBias(self.of_distance, positions)

    def of_distance(self, distance: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at distances of any shape; angles are formed in float64 where the device has it."""
        total = self._sum_by_table(distance)
        if total is None:
            far = distance.to(widest_float(distance.device))
            total = torch.full_like(far, -(self.sandwich_dim // 2))
            for theta in self._thetas():  # one after another: side by side they fill the memory
                total = total + torch.cos(far * theta)
        head = torch.arange(1, self.heads + 1, device=distance.device, dtype=total.dtype)
        return (total / (8 * head / self.heads).view(-1, *[1] * distance.dim())).float()

    def _thetas(self) -> list[float]:
        """Radians a position of each cosine."""
        terms = range(self.first, self.first + self.sandwich_dim // 2)
        return [10000.0 ** (-2 * k / self.sandwich_dim) for k in terms]

    def _sum_by_table(self, distance: Tensor) -> Tensor | None:
        """The sum less d/2 at many whole distances that lie close together; None where they do not.

        With i - j = 64a + b each cosine is cos(64aθ) cos(bθ) - sin(64aθ) sin(bθ): a product of two small matrices.
        """
        if distance.is_floating_point() or not can_be_read(distance) or distance.numel() <= 1024:
            return None
        first, last = (int(end) // 64 for end in distance.aminmax())
        if 32 * (last - first) > distance.numel():
            return None
        theta = torch.tensor(self._thetas(), dtype=torch.float64, device="cpu")
        far = 64 * torch.arange(first, last + 1, dtype=torch.float64, device="cpu").unsqueeze(1) * theta  # [a, terms]
        near = torch.arange(64, dtype=torch.float64, device="cpu").unsqueeze(1) * theta  # [b, terms]
        sums = torch.cat((far.cos(), -far.sin()), dim=1) @ torch.cat((near.cos(), near.sin()), dim=1).T  # [a, b]
        return (sums - self.sandwich_dim // 2).flatten()[distance.long() - 64 * first]

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}, sandwich_dim={self.sandwich_dim}, first={self.first}"
