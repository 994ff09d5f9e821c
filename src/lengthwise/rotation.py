"""The rotation of queries and keys that positions ask for, as a value.

Pair m of a head at position p is turned by the angle p * theta_m (Su et al. 2021, 2104.09864, eq. 15):

    (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)

The two published layouts pair either dims m and m + rotary_dim/2 ("half", GPT-NeoX and Llama in `transformers`) or
dims 2m and 2m + 1 ("interleaved", the paper and GPT-J). Dims past `rotary_dim` pass through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest

Layout = Literal["half", "interleaved"]


@dataclass(frozen=True, eq=False)
class Rotation:
    """Cosines and sines for queries and keys, ready to be applied.

    Args:
        q_cos, q_sin: float32 `[q, rotary_dim / 2]`, or `[batch, q, rotary_dim / 2]` from batched positions.
        k_cos, k_sin: the same for keys.
        layout: which dims make a pair.
    """

    q_cos: Float[Tensor, "*batch q pairs"]
    q_sin: Float[Tensor, "*batch q pairs"]
    k_cos: Float[Tensor, "*batch k pairs"]
    k_sin: Float[Tensor, "*batch k pairs"]
    layout: Layout = "half"

    @classmethod
    def of_angles(cls, q_angles: Tensor, k_angles: Tensor, layout: Layout = "half", scale: float = 1.0) -> Rotation:
        """Rotation by angles in radians, `[(batch,) length, rotary_dim / 2]`; `scale` multiplies the result's length.

        Where the keys stand at the very positions of the queries, pass the same tensor twice: the work is done once.
        """
        q_cos, q_sin = _cos_sin(q_angles, scale)
        k_cos, k_sin = (q_cos, q_sin) if k_angles is q_angles else _cos_sin(k_angles, scale)
        return cls(q_cos, q_sin, k_cos, k_sin, layout)

    @property
    def rotary_dim(self) -> int:
        """How many dims of a head are rotated; the rest pass through bit for bit."""
        return 2 * self.q_cos.shape[-1]

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries `[batch, heads, q, head_dim]` and keys `[batch, kv_heads, k, head_dim]`, dtypes kept."""
        return self.q(q), self.k(k)

    def q(self, x: Float[Tensor, "batch heads q head_dim"]) -> Float[Tensor, "batch heads q head_dim"]:
        """Rotate queries alone."""
        return rotate(x, self.q_cos, self.q_sin, self.layout)

    def k(self, x: Float[Tensor, "batch heads k head_dim"]) -> Float[Tensor, "batch heads k head_dim"]:
        """Rotate keys alone."""
        return rotate(x, self.k_cos, self.k_sin, self.layout)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """Turn each pair of dims of `x [batch, heads, length, head_dim]` by the angle whose cosine and sine are given."""
    pairs = cos.shape[-1]
    if x.dim() != 4 or x.shape[-2] != cos.shape[-2] or x.shape[-1] < 2 * pairs:
        raise InvalidArgument(
            f"expected [batch, heads, {cos.shape[-2]}, head_dim of at least {2 * pairs}] to rotate, "
            f"not {list(x.shape)}: are heads and length in this order, and are the positions those of this tensor?"
        )
    if cos.dim() == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # [batch, 1, length, pairs]
    wide = torch.promote_types(x.dtype, cos.dtype)
    turned = x[..., : 2 * pairs].to(wide)
    if layout == "half":
        x1, x2 = turned[..., :pairs], turned[..., pairs:]
        out = torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)
    elif layout == "interleaved":
        x1, x2 = turned[..., 0::2], turned[..., 1::2]
        out = torch.stack((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1).flatten(-2)
    else:
        raise InvalidArgument(f"unknown layout {layout!r}: {nearest(layout, ('half', 'interleaved'))}")
    return torch.cat((out.to(x.dtype), x[..., 2 * pairs :]), dim=-1)


def _cos_sin(angles: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    cos, sin = angles.cos(), angles.sin()
    if scale != 1.0:
        cos, sin = cos * scale, sin * scale
    return cos.float(), sin.float()
