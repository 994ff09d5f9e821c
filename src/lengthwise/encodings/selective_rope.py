"""Selective RoPE: angles that the tokens decide (Movahedi et al. 2025, 2511.17388).

    phi_t = conv(P n(x_t)),   Phi_t = phi_1 + ... + phi_t,   angle of pair m at t: tau_m Phi_{t,m}
    tau_m = temp_max base^(-2m / head_dim),   base = 500000

n scales each slice of a hidden state as wide as a head to length 1; P is a linear map through few dims; the
convolution is depthwise and causal, over 4 tokens, without an activation. phi is of each key head and pair. Halves of
a head are paired. phi = 1 is RoPE at positions counted from 1. Norms of queries and keys (QK-norm), if any, act after
the rotation.

The published options of a phase gate and of a bias exp(b) are left out: where they join is UNVERIFIED, and so are the
first values of the weights. The published code without a convolution takes differences over time instead, which the
sum over time takes back again; that is not repeated. The code was read, not run.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.hidden import causal_conv, check_read, project
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.rotation import Rotation

State = tuple[Tensor, Tensor]


@encodings.register("selective_rope")
class SelectiveRoPE(nn.Module):
    """Rotates queries and keys by running sums of steps that are read off the hidden states.

    Positions are not read, only order. The angle runs on over padding and from one packed document to the next, where
    only its differences within a document matter; the convolution stays within a document.

    Args:
        dim: width of the hidden states, a multiple of `head_dim`.
        kv_heads: number of key heads, each with steps of its own; query heads that share one share its angles.
        head_dim: width of one head, even.
        rank: inner width of P; 16 in the published class, 32 in its language models.
        base: ratio that sets the smallest temperature.
        temp_max: the largest temperature, of the first pair.
        conv: tokens that the convolution sees.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.SelectiveRoPE(dim=32, kv_heads=4, head_dim=8)
        >>> rotation, state = encoding.read(torch.randn(1, 16, 32), lw.Positions.sequence(16))
        >>> rotation.q_cos.shape  # batch, key heads, tokens, pairs
        torch.Size([1, 4, 16, 4])
    """

    formula: ClassVar[str] = (
        "q_i, k_j <- R(τ Φ_i) q_i, R(τ Φ_j) k_j,  Φ_t = Σ_{s≤t} conv(P n(x))_s,  τ_m = base^(-2m/d)"
    )
    paper: ClassVar[str] = "Movahedi et al. 2025, arXiv 2511.17388"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "norm_preserving"})
    direction: ClassVar[str] = "causal"
    shared: ClassVar[bool] = False

    def __init__(
        self,
        dim: int,
        kv_heads: int,
        head_dim: int,
        rank: int = 16,
        base: float = 500000.0,
        temp_max: float = 1.0,
        conv: int = 4,
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2 or dim < 1 or dim % head_dim:
            raise InvalidArgument(
                f"SelectiveRoPE needs an even head_dim and a dim that is a multiple of it, not {head_dim} and {dim}"
            )
        if kv_heads < 1 or rank < 1 or conv < 1:
            raise InvalidArgument(f"kv_heads, rank and conv must be at least 1, not {kv_heads}, {rank} and {conv}")
        if not base > 0 or not temp_max > 0:
            raise InvalidArgument(f"base and temp_max must be above 0, not {base} and {temp_max}")
        self.dim, self.kv_heads, self.head_dim, self.rank, self.conv = dim, kv_heads, head_dim, rank, conv
        self.base, self.temp_max = float(base), float(temp_max)
        steps = kv_heads * head_dim // 2
        self.down = nn.Parameter(torch.empty(rank, dim))
        self.up = nn.Parameter(torch.empty(steps, rank))
        self.conv_weight = nn.Parameter(torch.empty(steps, conv))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as linear and convolution layers of PyTorch do."""
        for part in (self.down, self.up, self.conv_weight):
            nn.init.uniform_(part, -(part.shape[1] ** -0.5), part.shape[1] ** -0.5)

    def read(
        self, hidden: Float[Tensor, "batch new dim"], positions: Positions, state: State | None = None
    ) -> tuple[Rotation, State]:
        """The rotation of the new queries and keys, from angles `[batch, kv_heads, new, head_dim / 2]`.

        The state is what the convolution still needs, and the last running sum.

        Raises:
            InvalidArgument: keys before the queries and no state.
        """
        check_read(hidden, positions, 0 if state is None else None)
        tail, last = (None, None) if state is None else state
        slices = hidden.to(torch.promote_types(hidden.dtype, torch.float32)).unflatten(-1, (-1, self.head_dim))
        unit = nn.functional.normalize(slices, dim=-1).flatten(-2)
        steps, tail = causal_conv(project(project(unit, self.down), self.up), self.conv_weight, positions, tail)
        steps = steps.unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)  # [batch, kv_heads, new, pairs]
        total = steps.to(widest_float(hidden.device)).cumsum(dim=2)
        last = torch.zeros_like(total[:, :, :1].sum(2, keepdim=True)) if last is None else last
        total = total + last
        if positions.q_segment is not None:
            total = total - _before_document(total, steps, positions.q_segment)
        exponent = torch.arange(0, self.head_dim, 2, device=hidden.device, dtype=total.dtype) / self.head_dim
        angles = total * (self.temp_max * self.base**-exponent)
        return Rotation.of_angles(angles, angles), (tail, torch.cat((last, total), dim=2)[:, :, -1:])

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"dim={self.dim}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, rank={self.rank}, "
            f"base={self.base:g}, temp_max={self.temp_max:g}, conv={self.conv}"
        )


def _before_document(total: Tensor, steps: Tensor, segment: Tensor) -> Tensor:
    """The running sum before each token's document, where another one stands before it in the row.

    A rotation alone would not need it; other encodings, which meet the rotated queries, do.
    """
    index = torch.arange(segment.shape[1], device=segment.device).expand_as(segment)
    real = torch.where(segment == -1, -1, index).cummax(dim=1).values  # the last real token so far
    before = torch.cat((torch.full_like(real[:, :1], -1), real[:, :-1]), dim=1)
    other = segment != segment.gather(1, before.clamp(min=0))
    begins = (segment != -1) & (before >= 0) & other
    start = torch.where(begins, index, 0).cummax(dim=1).values  # 0: the first document of the row
    place = start[:, None, :, None].expand(total.shape[0], total.shape[1], -1, total.shape[3])
    return (total - steps).gather(2, place).masked_fill(place == 0, 0.0)
