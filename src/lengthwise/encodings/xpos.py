"""xPos: a rotation with a decay, whose rate differs from pair to pair (Sun et al. 2022, 2212.10554, id UNVERIFIED).

    q_i <- zeta_m^((i - c) / s) R(i theta) q_i,   k_j <- zeta_m^(-(j - c) / s) R(j theta) k_j
    zeta_m = (2m / head_dim + gamma) / (1 + gamma),   theta_m = base^(-2m / head_dim),   s = scale_base

Pair m of a logit then carries zeta_m^((i - j) / s), below 1 for keys behind and above 1 for keys ahead: causal
attention only. The centre c cancels between a query and a key that were given the same one. `torchscale` has
c = ceil(length / 2), `rotary-embedding-torch` floor(length / 2); both give the same logits.
A key that was scaled about another centre and then cached is wrong, and `rotary-embedding-torch` does so for keys
that are rotated alone. Here keys wait in a cache as they are.

Factors grow with the distance from c. It lies halfway between the first query and the last key of a row, padding left
out, where the largest factor is as small as can be, and wherever the row stands: a step at position 2^20 has factors
near 1 and is exact. What bounds a call is the span of its queries, to its last key: some 32,000 positions in float32
and bfloat16 with the defaults, and some 8,000 where queries and keys are float16. Longer inputs go in chunks, a few
thousand queries at a time among all keys before them; a key that is then too far to be told from zero is one.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.rotation import Layout, Rotation

# Factors of a query and of a key ahead of it, both at an end, multiply to exp(80): with what they multiply, finite.
_LARGEST = 80.0


@encodings.register("xpos")
class XPos(nn.Module):
    """Rotates queries and keys and scales each pair of dims, so that a logit also decays with distance.

    Args:
        head_dim: width of one head, even.
        base: ratio that sets the lowest frequency.
        gamma: how close to 1 all zeta are, 0.4 as published; above 0.
        scale_base: positions over which a pair decays by its zeta, 512 as published.
        layout: which dims make a pair, `"interleaved"` as published, or `"half"`.

    Raises:
        InvalidArgument: settings out of range; when called, more queries at once than the factors have room for, as
            far as that can be told without reading a tensor. Where it can't be told the result is infinite or NaN.

    Example:
        >>> import torch, lengthwise as lw
        >>> q = k = torch.ones(1, 1, 3, 2)
        >>> q, k = lw.XPos(head_dim=2, scale_base=1.0).rotation(lw.Positions.sequence(3))(q, k)
        >>> (q * k).sum(-1)  # each token sees itself undecayed
        tensor([[[2.0000, 2.0000, 2.0000]]])
    """

    formula: ClassVar[str] = "q_i <- ζ^((i - c) / s) R(i θ) q_i,  k_j <- ζ^(-(j - c) / s) R(j θ) k_j"
    paper: ClassVar[str] = "Sun et al. 2022, arXiv 2212.10554"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})
    direction: ClassVar[str] = "causal"
    cached_keys: ClassVar[str] = "raw"

    def __init__(
        self,
        head_dim: int,
        base: float = 10000.0,
        gamma: float = 0.4,
        scale_base: float = 512.0,
        layout: Layout = "interleaved",
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise InvalidArgument(f"XPos turns pairs of dims: head_dim must be even, at least 2, not {head_dim}")
        for name, value in (("base", base), ("gamma", gamma), ("scale_base", scale_base)):
            if not value > 0:
                raise InvalidArgument(f"{name} must be above 0, not {value}")
        if layout not in ("half", "interleaved"):
            raise InvalidArgument(f"unknown layout {layout!r}: {nearest(layout, ('half', 'interleaved'))}")
        self.head_dim, self.base, self.gamma, self.scale_base = head_dim, float(base), float(gamma), float(scale_base)
        self.layout: Layout = layout

    @property
    def longest(self) -> float:
        """How far the first query of a call may lie before its last key: beyond, float32 has no room."""
        return _LARGEST * self.scale_base / -math.log(self.gamma / (1 + self.gamma))

    def rotation(self, positions: Positions) -> Rotation:
        """The rotation and the factors at `positions`, in one; formed in float64, kept in float32."""
        q, k = positions.one_axis()
        if positions.aligned and positions.q_segment is None and positions.q_length > self.longest:
            raise InvalidArgument(
                f"XPos has no room in float32 for {positions.q_length} queries at once, at most {int(self.longest)}: "
                "pass them in chunks, each among all keys before it, or raise scale_base"
            )
        wide = widest_float(q.device)
        q, k = q.to(wide), k.to(wide)
        centre = self._centre(q, k, positions)
        q_far, k_far = (q - centre) / self.scale_base, (centre - k) / self.scale_base
        if positions.q_segment is not None and positions.k_segment is not None:
            # Padding may stand anywhere, and an infinity there would be NaN once a mask is added to it.
            q_far, k_far = q_far.where(positions.q_segment != -1, 0.0), k_far.where(positions.k_segment != -1, 0.0)
        (q_cos, q_sin), (k_cos, k_sin) = self._tables(q, q_far), self._tables(k, k_far)
        return Rotation(q_cos, q_sin, k_cos, k_sin, self.layout)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"head_dim={self.head_dim}, base={self.base:g}, gamma={self.gamma:g}, scale_base={self.scale_base:g}, "
            f"layout={self.layout!r}"
        )

    def _centre(self, q: Tensor, k: Tensor, positions: Positions) -> Tensor:
        """Halfway between the first query and the last key of each row: `[1]` or `[batch, 1]`."""
        if not q.shape[-1] or not k.shape[-1]:
            return q.new_zeros(1)
        first, last = q, k
        if positions.q_segment is not None and positions.k_segment is not None:
            first = torch.where(positions.q_segment == -1, math.inf, q)
            last = torch.where(positions.k_segment == -1, -math.inf, k)
        middle = (first.amin(-1, keepdim=True) + last.amax(-1, keepdim=True)) / 2
        # In whole steps, so that calls of nearly the same positions share their factors to the last bit.
        step = self.scale_base / 2
        return torch.nan_to_num((middle / step).round() * step, nan=0.0, posinf=0.0, neginf=0.0)

    def _tables(self, place: Tensor, exponent: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines times the factors, float32 `[(batch,) length, pairs]`."""
        part = (
            torch.arange(0, self.head_dim, 2, device=place.device, dtype=place.dtype) / self.head_dim
        )  # 2m / head_dim
        zeta = (part + self.gamma) / (1 + self.gamma)
        angle, factor = place.unsqueeze(-1) * self.base**-part, zeta ** exponent.unsqueeze(-1)
        return (angle.cos() * factor).float(), (angle.sin() * factor).float()
